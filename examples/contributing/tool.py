"""A tool: what is the status of an order?"""

from seedbed import tool

ORDERS = {"7": "sent on Monday"}


@tool(effect="reads")
def order_status(order: str) -> str:
    """What happened to an order."""
    return ORDERS.get(order, "no such order")
