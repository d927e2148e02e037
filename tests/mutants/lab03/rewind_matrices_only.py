# loses 3.2 · message: "that the masks prune"
import torch


def rewind(model, state, masks):
    model.load_state_dict(state)
    with torch.no_grad():
        for module_name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.masked_fill_(~masks[f"{module_name}.weight"], 0)
