"""Write digits.npz: scikit-learn's handwritten digits, split for training and testing.

1,797 real images of 8 x 8 pixels (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI
Machine Learning Repository, 1998), grey values 0 to 16, as they ship inside scikit-learn. The file is made once
and committed, so that the trainer image needs no scikit-learn.

    python examples/make_digits.py
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TEST_EXAMPLES = 360  # divides by 2, 3, 4, 5, 6 and 8 workers without a remainder


def main() -> None:
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=TEST_EXAMPLES, stratify=labels, random_state=0
    )
    target = Path(__file__).with_name("digits.npz")
    np.savez_compressed(target, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    print(f"{target}: {len(x_train)} images to train on, {len(x_test)} to test on, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
