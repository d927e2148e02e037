# keeps 10.7
answer_10_7b = float(f"{answer_10_7b:.1f}")
