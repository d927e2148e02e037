# loses 1.8 · message: "is one of the letters"
answer_1_8a = "the batch norm statistics"
