# loses 4.7 · message: "nothing was learned in it"
answer_4_7a = "A"
