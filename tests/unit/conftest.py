import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
for folder in Path(__file__).parent.iterdir():  # samples that tests of several packages share
    if folder.is_dir():
        sys.path.append(str(folder))
