# loses 0.9 · message: "what all layers need together"
answer_0_9a = 9240576
