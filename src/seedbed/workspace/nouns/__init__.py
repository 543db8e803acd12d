"""What a workspace has by noun: `space.playbooks`, `space.runs`, …, each a module with a class of that name."""
