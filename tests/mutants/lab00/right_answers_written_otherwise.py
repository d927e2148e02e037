# keeps 0.8
import numpy as np

answer_0_8a = " C)"
answer_0_8b = np.float64(92.6)
