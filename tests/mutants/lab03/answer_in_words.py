# loses 3.7 · message: "is one of the letters"
answer_3_7a = "both belong together"
