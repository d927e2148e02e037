# keeps 7.4
import torch


def ablate_each(evaluate, layers, heads):
    gates = torch.ones(layers * heads)
    changes = []
    for i in range(layers * heads):
        gates[i] = 0
        changes.append(evaluate(gates.view(layers, heads)))
        gates[i] = 1
    return torch.tensor(changes).view(layers, heads) - evaluate(gates.view(layers, heads))


def all_but_one(eval_val, eval_test, layers, heads):
    whole = eval_test(torch.ones(layers, heads))

    def only(layer, head):
        gates = torch.ones(layers, heads)
        gates[layer] = torch.eye(heads)[head]
        return gates

    best = [max(range(heads), key=lambda head: eval_val(only(layer, head))) for layer in range(layers)]
    return [(head, eval_test(only(layer, head)) - whole) for layer, head in enumerate(best)]
