# loses 3.4 · message: "random"
def random_ticket(masks, generator):
    return {n: m.clone() for n, m in masks.items()}
