# loses 7.7 · message: "one of the letters"
answer_7_7a = "heads stand in for each other"
