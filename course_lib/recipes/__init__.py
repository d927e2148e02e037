"""How the models that come with the course were trained, and how real ones are
fine-tuned: each recipe a function.
"""
