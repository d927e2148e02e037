# keeps 0.9
answer_0_9a = 2359296.0
answer_0_9b = 5.3
