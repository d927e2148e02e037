# loses 4.7 · message: "one of the letters"
answer_4_7a = ["B"]
