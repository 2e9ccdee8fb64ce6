"""What DuckDB's SELECT has and SQLAlchemy's has not, as text."""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001, ARG002

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import BindParameter, _truncated_label
from sqlalchemy.sql.selectable import GenerativeSelect, TableValuedAlias
from sqlalchemy.sql.sqltypes import NULLTYPE, TableValueType

from sqlalchemy_ducklake.constructs.query import (
    Argument,
    AsofJoin,
    Explain,
    Qualify,
    Star,
)

# The engine names the column of these after the function, not after their alias.
_OF_ONE_COLUMN = frozenset({"generate_series", "generate_subscripts", "range", "unnest"})


class FormsCompiler(SQLCompiler):
    """Compiles the forms of SELECT that are DuckDB's own."""

    def _generate_delimited_and_list(self, clauses: Iterable[Any], **kw: Any) -> Any:
        """Leave QUALIFY out of HAVING, where it was given."""
        kept = [each for each in clauses if not isinstance(each, Qualify)]
        return super()._generate_delimited_and_list(kept, **kw)

    def _compose_select_body(
        self, text: Any, select: Any, state: Any, columns: Any, froms: Any, *args: Any
    ) -> Any:
        """… QUALIFY <condition>, if nothing follows that would bring it along.

        Functions in FROM come last: the engine knows the columns of what stands before.
        """
        froms = sorted(froms, key=lambda each: isinstance(each, TableValuedAlias))
        body = super()._compose_select_body(text, select, state, columns, froms, *args)
        if select._order_by_clauses or select._has_row_limiting_clause:
            return body
        return body + self.qualify_clause(select, **args[-1])

    def qualify_clause(self, select: GenerativeSelect, also: str = "", **kw: Any) -> str:
        """QUALIFY <conditions>, of those of the SELECT and ``also`` another one."""
        given = getattr(select, "_having_criteria", ())
        wanted = [each.condition for each in given if isinstance(each, Qualify)]
        conditions = [self.process(each.self_group(), **kw) for each in wanted]
        conditions += [also] if also else []
        return f"\n QUALIFY {' AND '.join(conditions)}" if conditions else ""

    def visit_ducklake_asof_join(
        self, join: AsofJoin, asfrom: bool = False, from_linter: Any = None, **kw: Any
    ) -> str:
        """<left> ASOF [LEFT] JOIN <right> ON <condition>."""
        del asfrom
        if from_linter:
            pairs = ((a, b) for a in join.left._from_objects for b in join.right._from_objects)
            from_linter.edges.update(pairs)
        left = self.process(join.left, asfrom=True, from_linter=from_linter, **kw)
        right = self.process(join.right, asfrom=True, from_linter=from_linter, **kw)
        condition = self.process(join.onclause, from_linter=from_linter, **kw)  # type: ignore[arg-type]
        outer = "LEFT " if join.isouter else ""
        return f"{left} ASOF {outer}JOIN {right} ON {condition}"

    def visit_ducklake_star(self, star: Star, add_to_result_map: Any = None, **kw: Any) -> str:
        """<table>.* EXCLUDE (<names>) REPLACE (<value> AS <name>)."""
        name = getattr(star.table, "name", None)
        text = f"{self.preparer.quote(name)}.*" if name else "*"
        if star.excluded:
            text += f" EXCLUDE ({', '.join(map(self.preparer.quote, star.excluded))})"
        if star.replaced:
            values = ", ".join(
                f"{self.process(value)} AS {self.preparer.quote(column)}"
                for column, value in star.replaced.items()
            )
            text += f" REPLACE ({values})"
        if add_to_result_map is not None:
            # As for a text: which columns these are, the cursor will tell.
            add_to_result_map(None, None, (star,), NULLTYPE)
        return text

    def visit_ducklake_argument(self, argument: Argument, **kw: Any) -> str:
        """<name> := <value>."""
        return f"{self.preparer.quote(argument.name)} := {self.process(argument.value, **kw)}"

    def visit_ducklake_explain(self, explain: Explain, **kw: Any) -> str:
        """EXPLAIN [ANALYZE] <query>."""
        word = "EXPLAIN ANALYZE" if explain.analyze else "EXPLAIN"
        text = f"{word} {self.process(explain.query, **kw)}"
        # The rows are those of the plan.
        self._result_columns = []
        return text

    def visit_try_cast(self, cast: Any, **kw: Any) -> str:
        """TRY_CAST(<expression> AS <type>), which is NULL where a CAST would fail."""
        return f"TRY_{self.visit_cast(cast, **kw)}"

    def visit_tablesample(self, tablesample: Any, asfrom: bool = False, **kw: Any) -> str:
        """<table> AS <alias> TABLESAMPLE <method>(<n>% or ROWS) [REPEATABLE (<seed>)].

        The engine takes constants only; ``reservoir`` counts rows, the others percents.
        """
        text: str = self.visit_alias(tablesample, asfrom=True, **kw)
        method = tablesample._get_method()
        unit = " ROWS" if method.name == "reservoir" else "%"
        sizes = [self._constant(each, **kw) for each in method.clauses]
        text += f" TABLESAMPLE {method.name}({', '.join(sizes)}{unit})"
        if tablesample.seed is not None:
            text += f" REPEATABLE ({self._constant(tablesample.seed, **kw)})"
        return text

    def _constant(self, element: Any, **kw: Any) -> str:
        if isinstance(element, BindParameter):
            element = element.render_literal_execute()
        return str(self.process(element, **kw))

    def visit_table_valued_alias(self, element: Any, **kw: Any) -> str:
        """Write <function> AS <alias>(<columns>), with columns where the engine wants them."""
        function = _function(element)
        if function == "unnest":
            kw["from_linter"] = None  # it reads a column of the table that it is joined with
        text: str = super().visit_table_valued_alias(element, **kw)
        wanted = function in _OF_ONE_COLUMN and not element._render_derived
        enclosing = getattr(kw.get("enclosing_alias"), "element", None)
        if not wanted or not kw.get("asfrom") or enclosing is element:
            return text
        names = [element.name]
        if isinstance(element._tableval_type, TableValueType):
            names = [column.name for column in element.c]
        return f"{text}({', '.join(map(self.preparer.quote, map(self._alias_name, names)))})"

    def _alias_name(self, name: Any) -> str:
        """Give the name that an anonymous alias gets in this statement."""
        truncated = isinstance(name, _truncated_label)
        return self._truncated_identifier("alias", name) if truncated else str(name)


def _function(element: Any) -> str:
    """Name the function that an alias, or the LATERAL around one, is of."""
    while isinstance(element, TableValuedAlias):
        element = element.element
    return getattr(element, "name", "")
