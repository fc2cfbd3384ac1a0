"""The page's part about compared policies: cost against minutes outside of the objective."""

from servable.rehearse.candidates import PolicyProposal
from servable.rehearse.comparison import PolicyComparison, PolicyResult
from servable.rehearse.comparison_output import by_cost, heads, lines, row
from servable.report import style
from servable.report.page import Picture, Tab
from servable.report.tables import Cell, ReportTable, Row


def comparison_tab(comparison: PolicyComparison, proposed: PolicyProposal, *, priced: bool) -> Tab:
    several = by_cost(comparison)
    rows = tuple(
        Row(_cells(policy, comparison), "chosen" if policy is comparison.best else "")
        for policy in several
    )
    return Tab(
        "comparison",
        "Comparison",
        (
            Picture(
                "comparison",
                "cost of each policy against its minutes outside",
                _scatter(comparison, priced),
            ),
        ),
        tuple(lines(comparison, priced=priced)),
        (ReportTable("Policies by cost", heads(priced=priced), rows),),
        proposed.diff,
    )


def _cells(policy: PolicyResult, comparison: PolicyComparison) -> tuple[Cell, ...]:
    name, cost, broken, refused, marks = row(policy, comparison)
    return (
        Cell(name),
        Cell(cost, policy.cost),
        Cell(broken, policy.broken),
        Cell(refused, float(refused.rstrip("%"))),
        Cell(marks),
    )


def _scatter(comparison: PolicyComparison, priced: bool) -> bytes:
    figure = style.figure()
    axes = figure.subplots()
    kept = [policy for policy in by_cost(comparison) if policy.unbeaten]
    others = [policy for policy in comparison.compared if not policy.unbeaten]
    axes.plot(*_points(others), "o", color=style.GREY, alpha=0.5, label="beaten by another")
    axes.plot(*_points(kept), "o-", color=style.GREEN, label="not beaten", drawstyle="steps-post")
    file, best = comparison.compared[0], comparison.best
    axes.plot(*_points([file]), "s", color=style.ORANGE, markersize=9, label="the file")
    axes.plot(
        *_points([best]),
        "o",
        color=style.BLUE,
        markersize=15,
        fillstyle="none",
        label=f"best: {best.trial.alternative.label}",
    )
    unit = "$" if priced else "instance hours"
    title = f"Each policy on the same {comparison.days} random days"
    style.finish(axes, title=title, x=f"{unit} a day", y="minutes a day outside of the objective")
    style.from_zero(axes, x=True)
    axes.set_ylim(bottom=-0.07 * axes.get_ylim()[1])  # the ring around a zero is whole
    return style.png(figure)


def _points(several: list[PolicyResult]) -> tuple[list[float], list[float]]:
    return [policy.cost for policy in several], [policy.broken for policy in several]
