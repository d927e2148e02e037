# loses 10.7 · message: "dense by pruned"
answer_10_7b = 0.31
