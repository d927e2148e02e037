# loses 3.7 · message: "other initial weights"
answer_3_7a = "c"
