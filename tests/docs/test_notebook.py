"""examples/notebook.ipynb runs from top to bottom in a real kernel, and its results display themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[AsyncKernelManager]:
    """A kernel of this Python, whatever kernels are installed on the machine."""
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "Python 3", "language": "python"}))
    found = KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False)
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=found)
    yield manager
    await manager.shutdown_kernel(now=True)


async def test_the_notebook_runs_and_its_results_display_themselves(kernel: Any, tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, km=kernel, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    await client.async_execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type in ("stream", "error")]
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    titles = ("Playbook", "Run", "Scorecard", "dataframe", "A better playbook", "superior", "Channel", "Channel")
    assert len(pages) == len(titles)
    for page, title in zip(pages, titles, strict=True):
        assert title in page


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not [cell for cell in code if cell.outputs or cell.execution_count]
