# loses 1.8 · message: "a fine-tuning needs labels and gradients"
answer_1_8a = "b"
