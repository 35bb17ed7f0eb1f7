"""The analysis: from a syntax tree to a plan. Names are resolved, implied operators named, constants computed."""

from __future__ import annotations

from typing import assert_never

from shoal.errors import InvalidInput
from shoal.lang import ast, plan
from shoal.lang.analyze_expr import COMPARISONS, Expressions
from shoal.lang.analyze_sources import Sources
from shoal.lang.catalog import Catalog, Evaluate, NoLake
from shoal.lang.context import Context, FuncRef, OpRef, Scope, Types
from shoal.lang.field_paths import check_assignments, check_record, check_rename
from shoal.lang.functions import is_boolean
from shoal.lang.source import Source, joined
from shoal.model import types as t
from shoal.model import values
from shoal.model.text import format_value
from shoal.model.values import Value, is_error, is_missing

_INTEGERS = frozenset({t.INT8, t.INT16, t.INT32, t.INT64, t.UINT8, t.UINT16, t.UINT32, t.UINT64})
MAX_OPERATORS = 1000
"""How many operators a program may have once its own ones are expanded: each takes stack while it runs."""
_BOOLEAN_OPERATORS = COMPARISONS | {"and", "or", "in"}


def analyze(tree: ast.Seq, source: Source, evaluate: Evaluate, catalog: Catalog | None = None) -> plan.Program:
    """The plan of a program; it begins with a scan of the query's input if it needs one."""
    return Analyzer(source, evaluate, catalog or NoLake()).program(tree)


def needs_input(seq: plan.Seq) -> bool:
    """Whether a sequence reads what comes before it."""
    if not seq:
        return True
    match seq[0]:
        case plan.DefaultScan() | plan.FileScan() | plan.HttpScan() | plan.PoolScan() | plan.MetaScan():
            return False
        case plan.Fork(legs):
            return any(needs_input(leg) for leg in legs)
        case _:
            return True


class Analyzer:
    """Resolves operators. Subqueries inside of expressions come back to `seq`."""

    def __init__(self, source: Source, evaluate: Evaluate, catalog: Catalog) -> None:
        self._context = Context(source, evaluate)
        self._types = Types()
        self._exprs = Expressions(self._context, self._types, self)
        self._sources = Sources(self._context, self._exprs, catalog)
        self._open_ops: list[ast.OpDecl] = []
        self._operators = 0

    def seq(self, ops: ast.Seq) -> plan.Seq:
        """A sequence of operators."""
        out: list[plan.Op] = []
        for op in ops:
            resolved: plan.Seq = ()
            with self._context.noted():
                resolved = self._op(op)
            out.extend(resolved)
            self._operators += len(resolved)
            if self._operators > MAX_OPERATORS:
                raise self._context.error(f"program has more than {MAX_OPERATORS} operators", op.span)
        return tuple(out)

    def _check_outputs(self, ops: ast.Seq, is_leaf: bool) -> None:
        """Refuse an output with something after it."""
        for i, op in enumerate(ops):
            is_last = is_leaf and i == len(ops) - 1
            if isinstance(op, ast.Output) and not is_last:
                self._context.errors.append(self._context.error("output operator must be at flowgraph leaf", op.span))
            match op:
                case ast.Fork(legs):
                    for leg in legs:
                        self._check_outputs(leg, is_last)
                case ast.Switch(_, cases):
                    for case in cases:
                        self._check_outputs(case.body, is_last)
                case ast.Scope(_, body):
                    self._check_outputs(body, is_last)
                case ast.Over(body=body) if body is not None:
                    self._check_outputs(body, False)

    def program(self, tree: ast.Seq) -> plan.Program:
        """The plan of a whole program; all that is wrong with it is said at once."""
        self._check_outputs(tree, True)
        body = self.seq(tree)
        if self._context.errors:
            raise joined(self._context.errors)
        if needs_input(body):
            body = (self._sources.default_scan(), *body)
        return plan.Program(body, tuple(self._context.funcs), tuple(self._types.names.items()))

    def _op(self, op: ast.Op) -> plan.Seq:
        match op:
            case ast.Scope():
                return self._scope(op)
            case ast.Fork(legs):
                return (plan.Fork(tuple(self.seq(leg) for leg in legs)),)
            case ast.Switch():
                return (self._switch(op),)
            case ast.From(trunks):
                return self._from(trunks)
            case ast.File() | ast.Get() | ast.Pool():
                return together(self._sources.scans(op))
            case ast.Pass():
                return (plan.Pass(),)
            case ast.Summarize():
                return self._summarize(op)
            case ast.OpAssignment():
                return (self._assignment_op(op),)
            case ast.OpExpr(expr):
                return self._expr_op(expr)
            case ast.Search(expr) | ast.Where(expr):
                return (plan.Filter(self._exprs.expr(expr)),)
            case ast.Assert():
                return (self._assert(op),)
            case ast.Sort(keys, reverse, nulls_first):
                return (plan.Sort(tuple(self._sort_expr(key) for key in keys), reverse, nulls_first),)
            case ast.Top():
                return (self._top(op),)
            case ast.Cut(args):
                return (self._cut(args),)
            case ast.Drop(args):
                return (plan.Drop(tuple(self._field(arg) for arg in args)),)
            case ast.Head(count):
                return (plan.Head(self._count(count)),)
            case ast.Tail(count):
                return (plan.Tail(self._count(count)),)
            case ast.Uniq(count):
                return (plan.Uniq(count),)
            case ast.Put(args):
                return (self._put(op, args),)
            case ast.Rename(args):
                return (plan.Rename(tuple(self._rename(arg) for arg in args)),)
            case ast.Fuse():
                return (plan.Fuse(),)
            case ast.Shape():
                return (plan.Shape(),)
            case ast.Join():
                return self._join(op)
            case ast.Sample(expr):
                return self._sample(plan.This() if expr is None else self._exprs.expr(expr))
            case ast.Load():
                return (self._sources.load(op),)
            case ast.Explode():
                return (self._explode(op),)
            case ast.Merge(expr):
                return (plan.Merge(self._exprs.expr(expr)),)
            case ast.Over():
                return (self._over(op),)
            case ast.Yield(exprs):
                return (plan.Yield(self._exprs.exprs(exprs)),)
            case ast.Debug(expr):
                return (plan.Debug(plan.This() if expr is None else self._exprs.expr(expr)),)
            case ast.Output(name):
                return (plan.Output(name),)
            case _:
                assert_never(op)

    # ---- declarations

    def _scope(self, node: ast.Scope) -> plan.Seq:
        with self._context.inside(Scope(self._context.scope)):
            self._declare(node.decls)
            return self.seq(node.body)

    def _declare(self, decls: tuple[ast.Decl, ...]) -> None:
        """Constants and types in order; then functions, which may call each other."""
        funcs: list[tuple[ast.FuncDecl, FuncRef]] = []
        for decl in decls:
            with self._context.at(decl):
                match decl:
                    case ast.ConstDecl(name, expr):
                        self._define_constant(name, self._context.constant(self._exprs.expr(expr)))
                    case ast.TypeDecl(name, typ):
                        with self._context.at(typ):
                            defined = self._types.define_type(name, typ)
                        self._context.scope.define(name, plan.Literal(Value(t.TYPE, defined)))
                    case ast.OpDecl(name, params):
                        self._check_params(params)
                        self._context.scope.define(name, OpRef(decl, self._context.scope))
                    case ast.FuncDecl(name, params):
                        funcs.append((decl, self._reserve(name, params)))
        for func, ref in funcs:
            self._define_body(func, ref)

    def _define_constant(self, name: str, value: Value) -> None:
        if is_missing(value):
            raise InvalidInput(f'const "{name}": cannot have variable dependency')
        if is_error(value):
            raise InvalidInput(f'const "{name}": {format_value(value)}')
        self._context.scope.define(name, plan.Literal(value))

    def _check_params(self, params: tuple[str, ...]) -> None:
        for i, param in enumerate(params):
            if param in params[:i]:
                raise InvalidInput(f'duplicate parameter "{param}"')

    def _reserve(self, name: str, params: tuple[str, ...]) -> FuncRef:
        ref = FuncRef(len(self._context.funcs), params)
        self._context.scope.define(name, ref)
        self._context.funcs.append(plan.Func(name, params, plan.Literal(values.MISSING)))
        return ref

    def _define_body(self, decl: ast.FuncDecl, ref: FuncRef) -> None:
        with self._context.inside(Scope(self._context.scope, is_frame=True)):
            with self._context.at(decl):
                for param in decl.params:
                    self._context.scope.define_variable(param)
            self._context.funcs[ref.index] = plan.Func(decl.name, decl.params, self._exprs.expr(decl.body))

    # ---- operators of the program

    def _user_op(self, call: ast.Call) -> plan.Seq | None:
        """The operators that a call of a user's operator stands for; None if it is not such a call."""
        ref = self._context.scope.lookup_op(call.name)
        if ref is None:
            return None
        if call.where is not None:
            raise self._context.error("user defined operators cannot have a where clause", call.span)
        params = ref.decl.params
        if len(params) != len(call.args):
            got, expected = counted(len(call.args)), counted(len(params))
            raise self._context.error(f"{got} provided when operator expects {expected}", call.span)
        args = [self._op_argument(arg) for arg in call.args]
        if ref.decl in self._open_ops:
            chain = " -> ".join(decl.name for decl in (*self._open_ops, ref.decl))
            raise self._context.error(f"operator cycle found: {chain}", call.span)
        return self._expand(ref, dict(zip(params, args, strict=True)))

    def _op_argument(self, arg: ast.Expr) -> plan.Expr:
        """An argument is a path or a constant."""
        expr = self._exprs.expr(arg)
        if isinstance(expr, plan.This):
            return expr
        value = self._context.constant(expr)
        if is_missing(value):
            raise self._context.error("non-path arguments cannot have variable dependency", arg.span)
        if is_error(value):
            raise self._context.error(format_value(value), arg.span)
        return plan.Literal(value)

    def _expand(self, ref: OpRef, args: dict[str, plan.Expr]) -> plan.Seq:
        self._open_ops.append(ref.decl)
        try:
            with self._context.inside(Scope(ref.scope, first_slot=self._context.scope.slots())):
                for name, arg in args.items():
                    self._context.scope.define(name, arg)
                return self.seq(ref.decl.body)
        finally:
            self._open_ops.pop()

    # ---- implied operators

    def _expr_op(self, node: ast.Expr) -> plan.Seq:
        """An expression as an operator: it filters if it is boolean, it summarizes if it is an aggregate."""
        if isinstance(node, ast.Call):
            body = self._user_op(node)
            if body is not None:
                return body
            agg = self._exprs.aggregate_call(node)
            if agg is not None:
                return single_aggregate(agg)
        expr = self._exprs.expr(node)
        if isinstance(expr, plan.Agg):
            return single_aggregate(expr)
        return (plan.Filter(expr),) if self._is_boolean(expr) else (plan.Yield((expr,)),)

    def _is_boolean(self, expr: plan.Expr, seen: frozenset[int] = frozenset()) -> bool:
        match expr:
            case plan.Literal(value):
                return value.type is t.BOOL and value.data is not None
            case plan.Unary(_, operand):
                return self._is_boolean(operand, seen)
            case plan.Binary(op):
                return op in _BOOLEAN_OPERATORS
            case plan.Conditional(_, then, otherwise):
                return self._is_boolean(then, seen) and self._is_boolean(otherwise, seen)
            case plan.UserCall(func):
                return func not in seen and self._is_boolean(self._context.funcs[func].body, seen | {func})
            case plan.Call(name):
                return is_boolean(name)
            case plan.Search() | plan.RegexpMatch() | plan.RegexpSearch():
                return True
        return False

    def _assignment_op(self, node: ast.OpAssignment) -> plan.Op:
        """`put`, or `summarize` if all that is assigned is aggregates."""
        assignments = [self._assignment(a) for a in node.assignments]
        aggs = [a for a in assignments if isinstance(a.expr, plan.Agg)]
        if aggs and len(aggs) < len(assignments):
            raise self._context.error("mix of aggregations and non-aggregations in assignment list", node.span)
        if not aggs:
            return self._checked_put(node, assignments)
        for a, written in zip(aggs, node.assignments, strict=True):
            if not isinstance(a.target, plan.This):
                raise self._context.error("aggregate output field must be static", (written.target or written).span)
        with self._context.at(node):
            return summarize(aggs, [])

    # ---- the operators

    def _assignment(self, node: ast.Assignment) -> plan.Assignment:
        expr = self._exprs.expr(node.expr)
        with self._context.at(node):
            target = plan.This(implied_path(expr)) if node.target is None else self._exprs.expr(node.target)
            if not is_target(target):
                raise InvalidInput("illegal left-hand side of assignment")
            if target == plan.This():
                raise InvalidInput("cannot assign to 'this'")
        return plan.Assignment(target, expr)

    def _summarize(self, node: ast.Summarize) -> plan.Seq:
        keys = [self._assignment(key) for key in node.keys]
        aggs = [self._assignment(agg) for agg in node.aggs]
        for assignment, written in zip((*keys, *aggs), (*node.keys, *node.aggs), strict=True):
            if not isinstance(assignment.target, plan.This):
                raise self._context.error("output field must be static", (written.target or written).span)
        with self._context.at(node):
            made_op = summarize(aggs, keys, node.limit)
        if not keys and len(aggs) == 1 and node.aggs[0].target is None:
            return (made_op, plan.Yield((aggs[0].target,)))
        return (made_op,)

    def _switch(self, node: ast.Switch) -> plan.Op:
        expr = self._exprs.optional(node.expr)
        cases: list[plan.Case] = []
        for case in node.cases:
            test = self._exprs.optional(case.expr)
            if test is not None and expr is not None:
                value = self._context.constant(test)
                if is_error(value):
                    assert case.expr is not None
                    raise self._context.error("switch case is not a constant expression", case.expr.span)
                test = plan.Literal(value)
            cases.append(plan.Case(test, self.seq(case.body)))
        return plan.Switch(expr, tuple(cases))

    def _from(self, trunks: tuple[ast.Trunk, ...]) -> plan.Seq:
        legs: list[plan.Seq] = []
        for trunk in trunks:
            if trunk.body is not None and isinstance(trunk.source, ast.Pool) and is_pattern(trunk.source):
                raise self._context.error("=> not allowed after pool pattern in 'from' operator", trunk.span)
            body = () if trunk.body is None else self.seq(trunk.body)
            legs.extend((*scan, *body) for scan in self._sources.scans(trunk.source))
        return together(legs)

    def _assert(self, node: ast.Assert) -> plan.Op:
        problem = plan.RecordExpr(
            (
                plan.Field("message", plan.Literal(values.string("assertion failed"))),
                plan.Field("expr", plan.Literal(values.string(node.text))),
                plan.Field("on", plan.This()),
            )
        )
        return plan.Yield((plan.Conditional(self._exprs.expr(node.expr), plan.This(), plan.Call("error", (problem,))),))

    def _sort_expr(self, key: ast.SortExpr) -> plan.SortKey:
        return plan.SortKey(self._exprs.expr(key.expr), "desc" if key.order == "desc" else "asc")

    def _top(self, node: ast.Top) -> plan.Op:
        keys = self._exprs.exprs(node.keys)
        if not keys:
            raise self._context.error("no arguments given", node.span)
        limit = 1
        if node.limit is not None:
            value = self._context.constant(self._exprs.expr(node.limit)).under()
            if value.type not in (t.INT8, t.INT16, t.INT32, t.INT64) or value.data is None:
                raise self._context.error("limit argument must be an integer", node.limit.span)
            if value.data < 1:
                raise self._context.error("limit argument value must be greater than 0", node.limit.span)
            limit = value.data
        return plan.Top(limit, keys, node.flush)

    def _cut(self, args: tuple[ast.Assignment, ...]) -> plan.Op:
        assignments = tuple(self._assignment(arg) for arg in args)
        with self._context.at(ast.Pass(span=(args[0].span[0], args[-1].span[1]))):
            check_record(static_paths(assignments))
        return plan.Cut(assignments)

    def _field(self, node: ast.Expr) -> plan.Path:
        expr = self._exprs.expr(node)
        if not isinstance(expr, plan.This):
            raise self._context.error("invalid expression used as a field", node.span)
        if not expr.path:
            raise self._context.error("cannot use 'this' as a field reference", node.span)
        return expr.path

    def _count(self, node: ast.Expr | None) -> int:
        if node is None:
            return 1
        value = self._context.constant(self._exprs.expr(node))
        if value.type.under not in _INTEGERS or value.data is None:
            text = f"expression value must be an integer value: {format_value(value)}"
            raise self._context.error(text, node.span)
        if value.data < 1:
            raise self._context.error("expression value must be a positive integer", node.span)
        return int(value.data)

    def _put(self, node: ast.Put, args: tuple[ast.Assignment, ...]) -> plan.Op:
        return self._checked_put(node, [self._assignment(arg) for arg in args])

    def _checked_put(self, node: ast.Node, args: list[plan.Assignment]) -> plan.Op:
        with self._context.at(node):
            check_assignments(static_paths(args))
        return plan.Put(tuple(args))

    def _rename(self, node: ast.Assignment) -> plan.Assignment:
        assignment = self._assignment(node)
        if not is_target(assignment.expr):
            raise self._context.error("illegal right-hand side of assignment", node.expr.span)
        if isinstance(assignment.target, plan.This) and isinstance(assignment.expr, plan.This):
            with self._context.at(node):
                check_rename(assignment.target.path, assignment.expr.path)
        return assignment

    def _join(self, node: ast.Join) -> plan.Seq:
        left = self._exprs.expr(node.left_key)
        right = left if node.right_key is None else self._exprs.expr(node.right_key)
        args = tuple(self._assignment(arg) for arg in node.args)
        style: dict[str, plan.JoinStyle] = {"anti": "anti", "inner": "inner", "left": "left", "right": "right"}
        join = plan.Join(style[node.style], left, right, args)
        if node.right is None:
            return (join,)
        return (plan.Fork(((plan.Pass(),), self.seq(node.right))), join)

    def _sample(self, expr: plan.Expr) -> plan.Seq:
        """One value of each type: the first."""
        aggs = ((("sample",), plan.Agg("any", expr)),)
        keys = ((("shape",), plan.Call("typeof", (expr,))),)
        return (plan.Summarize(aggs, keys), plan.Yield((plan.This(("sample",)),)))

    def _explode(self, node: ast.Explode) -> plan.Op:
        with self._context.at(node.type):
            typ = self._types.resolve_type(node.type)
        name = "value"
        if node.name is not None:
            target = self._exprs.expr(node.name)
            if not isinstance(target, plan.This):
                raise self._context.error("as clause must be a field reference", node.name.span)
            if len(target.path) != 1:
                raise self._context.error("field must be a top-level field", node.name.span)
            name = target.path[0]
        return plan.Explode(self._exprs.exprs(node.args), typ, name)

    def _over(self, node: ast.Over) -> plan.Op:
        if node.locals and node.body is None:
            raise self._context.error("cannot have a with clause without a lateral query", node.span)
        with self._context.inside(Scope(self._context.scope)):
            names = self._exprs.locals(node.locals)
            exprs = self._exprs.exprs(node.exprs)
            return plan.Over(exprs, names, None if node.body is None else self.seq(node.body))


def together(legs: list[plan.Seq]) -> plan.Seq:
    """One sequence as it is, several as the legs of a fork."""
    return legs[0] if len(legs) == 1 else (plan.Fork(tuple(legs)),)


def is_pattern(pool: ast.Pool) -> bool:
    """Whether a pool is named by a pattern."""
    return isinstance(pool.name, ast.Glob | ast.Regexp)


def counted(count: int) -> str:
    """`1 arg`, `2 args`."""
    return f"{count} arg{'' if count == 1 else 's'}"


def single_aggregate(agg: plan.Agg) -> plan.Seq:
    """A lone aggregate gives its bare value."""
    path = (agg.name,)
    return (plan.Summarize(((path, agg),)), plan.Yield((plan.This(path),)))


def summarize(aggs: list[plan.Assignment], keys: list[plan.Assignment], limit: int = 0) -> plan.Summarize:
    """A summarize of assignments whose targets are static."""
    named_aggs = tuple((a.target.path, a.expr) for a in aggs if isinstance(a.target, plan.This) and _is_agg(a.expr))
    named_keys = tuple((k.target.path, k.expr) for k in keys if isinstance(k.target, plan.This))
    check_record([path for path, _ in named_keys] + [path for path, _ in named_aggs])
    return plan.Summarize(tuple((p, a) for p, a in named_aggs if isinstance(a, plan.Agg)), named_keys, limit)


def _is_agg(expr: plan.Expr) -> bool:
    return isinstance(expr, plan.Agg)


def static_paths(args: list[plan.Assignment] | tuple[plan.Assignment, ...]) -> list[plan.Path]:
    """The targets that do not depend on data."""
    return [a.target.path for a in args if isinstance(a.target, plan.This)]


def is_target(expr: plan.Expr) -> bool:
    """Whether something can be assigned to an expression."""
    match expr:
        case plan.This():
            return True
        case plan.Index(inner) | plan.Dot(inner):
            return is_target(inner)
    return False


def implied_path(expr: plan.Expr) -> plan.Path:
    """The field that an expression without a target goes to."""
    match expr:
        case plan.Agg(name=name) | plan.UserCall(name=name) | plan.Var(name=name):
            return (name,)
        case plan.Call("every"):
            return ("ts",)
        case plan.Call("quiet", (plan.This(path),)):
            return path
        case plan.Call(name):
            return (name,)
        case plan.This(path):
            return path
    raise InvalidInput("cannot infer field from expression")
