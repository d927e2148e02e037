# keeps 3.4
import torch


def random_ticket(masks, generator):
    result = {}
    for name, mask in masks.items():
        places = mask.flatten().tolist()
        for i in range(len(places) - 1, 0, -1):
            j = torch.randint(i + 1, (), generator=generator).item()
            places[i], places[j] = places[j], places[i]
        result[name] = torch.tensor(places).bool().reshape(mask.shape)
    return result
