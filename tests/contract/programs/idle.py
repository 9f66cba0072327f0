"""Makes no step."""

import time

time.sleep(600)
