package jinja

import "slices"

// Expressions and statements. Each has its line number, for errors.

type node interface{ at() int }

type line int

func (l line) at() int { return int(l) }

type (
	constant struct {
		line
		value Value
	}
	variable struct {
		line
		name string
	}
	collection struct { // a list or a tuple
		line
		kind  sequenceKind
		items []node
	}
	dictionary struct {
		line
		keys, values []node
	}
	attribute struct {
		line
		of   node
		name string
	}
	subscript struct {
		line
		of, index node
	}
	sliceRange struct {
		line
		from, to, step node // nil if absent
	}
	call struct {
		line
		of   node
		args argumentNodes
	}
	filter struct {
		line
		of   node // nil in a filter block
		name string
		args argumentNodes
	}
	test struct {
		line
		of   node
		name string
		args argumentNodes
	}
	unary struct {
		line
		op string
		of node
	}
	binary struct {
		line
		op   string
		a, b node
	}
	comparison struct {
		line
		first node
		ops   []string
		rest  []node
	}
	concatenation struct {
		line
		parts []node
	}
	conditional struct {
		line
		test, yes, no node // no is nil without else
	}
)

// argumentNodes are the arguments in a call.
type argumentNodes struct {
	args     []node
	names    []string // of keyword arguments
	keywords []node
	star     node // *args
	stars    node // **kwargs
}

// operands returns the direct subexpressions of an expression; some may be nil.
func operands(n node) []node {
	switch n := n.(type) {
	case *collection:
		return n.items
	case *dictionary:
		return slices.Concat(n.keys, n.values)
	case *attribute:
		return []node{n.of}
	case *subscript:
		return []node{n.of, n.index}
	case *sliceRange:
		return []node{n.from, n.to, n.step}
	case *call:
		return append(n.args.all(), n.of)
	case *filter:
		return append(n.args.all(), n.of)
	case *test:
		return append(n.args.all(), n.of)
	case *unary:
		return []node{n.of}
	case *binary:
		return []node{n.a, n.b}
	case *comparison:
		return append(slices.Clone(n.rest), n.first)
	case *concatenation:
		return n.parts
	case *conditional:
		return []node{n.test, n.yes, n.no}
	}
	return nil
}

func (a argumentNodes) all() []node {
	return append(slices.Concat(a.args, a.keywords), a.star, a.stars)
}

type (
	output struct {
		line
		data  string
		exprs []node // nil for data
	}
	forLoop struct {
		line
		target     node
		iterable   node
		filter     node
		body, none []node
		recursive  bool
	}
	ifElse struct {
		line
		tests  []node
		bodies [][]node // one more than tests if there is an else
	}
	set struct {
		line
		target node
		value  node
	}
	setBlock struct {
		line
		target node
		filter node
		body   []node
	}
	macroDef struct {
		line
		name   string
		params []parameter
		body   []node
		used   map[string]bool // names used in the body
	}
	callBlock struct {
		line
		call   *call
		caller *macroDef
	}
	filterBlock struct {
		line
		filter node
		body   []node
	}
	withBlock struct {
		line
		targets, values []node
		body            []node
	}
	block struct { // block, autoescape
		line
		escape node // autoescape's operand; otherwise nil
		body   []node
	}
	generation struct {
		line
		body []node
	}
	jump struct { // break, continue
		line
		signal signal
	}
	unsupported struct { // include, import, extends, which need other templates
		line
		tag string
	}
)

type parameter struct {
	name   string
	preset node // default; may be nil
}

// namespaceRef is a target of set: ns.name.
type namespaceRef struct {
	line
	name, attribute string
}
