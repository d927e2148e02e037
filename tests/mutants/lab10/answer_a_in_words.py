# loses 10.7 · message: "is one of the letters"
answer_10_7a = "it differs"
