"""Plot the cost by day. Run it as a script, or cell by cell in an editor that supports ``# %%``.

With matplotlib it writes cost_by_day.png; without matplotlib it prints a chart.
"""

# %% Load usage by day
from __future__ import annotations

import sys
from collections import defaultdict

import agenttrace

with agenttrace.open_store() as store:
    days = store.usage(by="day")

# %% One series per currency: amounts in different currencies are never added
series: dict[str, dict[str, float]] = defaultdict(dict)
for day in days:
    for currency, amount in day.costs.items():
        series[currency][day.group] = amount

# %% Plot
try:
    from matplotlib import pyplot  # type: ignore[import-not-found]
except ImportError:
    pyplot = None

if pyplot is None:
    for currency, costs in series.items():
        print(f"Cost by day in {currency}")
        highest = max(costs.values()) or 1
        for name, amount in sorted(costs.items()):
            print(f"{name}  {'█' * round(40 * amount / highest):<40}  {amount:10.2f}")
else:
    figure, axes = pyplot.subplots(figsize=(10, 4))
    for currency, costs in series.items():
        axes.bar(list(costs), list(costs.values()), label=currency)
    axes.set_title("Cost by day")
    axes.tick_params(axis="x", rotation=60)
    axes.legend()
    figure.tight_layout()
    figure.savefig("cost_by_day.png")
    print("Wrote cost_by_day.png", file=sys.stderr)
