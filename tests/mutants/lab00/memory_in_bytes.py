# loses 0.9 · message: "bits are asked for"
answer_0_9a = 294912
