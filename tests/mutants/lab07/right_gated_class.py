# keeps 7.2
class gated:
    def __init__(self, model, xi):
        self.model, self.xi = model, xi

    def __enter__(self):
        heads = self.model.config.num_attention_heads
        self.handles = []
        for i, layer in enumerate(output_projections(self.model)):

            def hook(module, args, kwargs, i=i):
                x = args[0]
                gate = self.xi[i]
                if gate.dim() == 1:
                    gate = gate.view(1, 1, heads, 1)
                else:
                    gate = gate.view(-1, 1, heads, 1)
                B, L, E = x.shape
                return ((x.reshape(B, L, heads, E // heads) * gate).reshape(B, L, E),), kwargs

            self.handles.append(layer.register_forward_pre_hook(hook, with_kwargs=True))

    def __exit__(self, *exception):
        for handle in self.handles:
            handle.remove()
        return False
