package jinja

import (
	"slices"
	"strings"
)

// Words for constants.
var constants = map[string]Value{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

func (p *parser) isTupleEnd(end string) bool {
	t := p.current()
	return t.kind == variableEnd || t.kind == blockEnd || t.isOperator(")") || end != "" && t.isName(end)
}

func (p *parser) tuple(conditionals, parentheses bool) node {
	return p.tupleOf(conditionals, parentheses, "")
}

// tupleOf parses an expression, or a tuple of several separated by commas.
func (p *parser) tupleOf(conditionals, parentheses bool, end string) node {
	at := line(p.current().line)
	items, isTuple := p.commas(
		func([]node) bool { return p.isTupleEnd(end) },
		func() node { return p.expression(conditionals) })
	if !isTuple {
		if len(items) > 0 {
			return items[0]
		}
		if !parentheses {
			p.fail(int(at), "an expression expected, got %q", p.current().describe())
		}
	}
	return p.made(&collection{at, tupleKind, items})
}

func (p *parser) expression(conditionals bool) node {
	p.enter()
	defer p.leave()
	at := line(p.current().line)
	n := p.or()
	for conditionals && p.skipName("if") {
		test := p.or()
		var no node
		if p.skipName("else") {
			no = p.expression(true)
		}
		n = p.made(&conditional{at, test, n, no})
	}
	return n
}

func (p *parser) or() node  { return p.leftToRight(p.and, "or") }
func (p *parser) and() node { return p.leftToRight(p.not, "and") }

func (p *parser) not() node {
	if t := p.current(); t.isName("not") {
		p.enter()
		defer p.leave()
		p.next()
		return p.made(&unary{line(t.line), "not", p.not()})
	}
	return p.comparison()
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) comparison() node {
	n := &comparison{line: line(p.current().line), first: p.sum()}
	for {
		t := p.current()
		switch {
		case t.kind == operatorToken && slices.Contains(comparisons, t.text):
			p.next()
			n.ops = append(n.ops, t.text)
		case t.isName("in"):
			p.next()
			n.ops = append(n.ops, "in")
		case t.isName("not") && p.look().isName("in"):
			p.next()
			p.next()
			n.ops = append(n.ops, "not in")
		case len(n.ops) == 0:
			return n.first
		default:
			return p.made(n)
		}
		n.rest = append(n.rest, p.sum())
	}
}

// leftToRight parses operands joined by left-associative operators of one precedence.
func (p *parser) leftToRight(operand func() node, ops ...string) node {
	n := operand()
	for {
		t := p.current()
		if t.kind != operatorToken && t.kind != nameToken || !slices.Contains(ops, t.text) {
			return n
		}
		p.next()
		n = p.made(&binary{line(t.line), t.text, n, operand()})
	}
}

func (p *parser) sum() node { return p.leftToRight(p.concatenation, "+", "-") }

func (p *parser) concatenation() node {
	n := &concatenation{line: line(p.current().line), parts: []node{p.product()}}
	for p.skipOperator("~") {
		n.parts = append(n.parts, p.product())
	}
	if len(n.parts) == 1 {
		return n.parts[0]
	}
	return p.made(n)
}

func (p *parser) product() node { return p.leftToRight(p.power, "*", "/", "//", "%") }

func (p *parser) power() node {
	return p.leftToRight(func() node { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) node {
	p.enter()
	defer p.leave()
	t := p.current()
	var n node
	switch {
	case t.isOperator("-") || t.isOperator("+"):
		p.next()
		n = p.made(&unary{line(t.line), t.text, p.unary(false)})
	default:
		n = p.primary()
	}
	n = p.postfix(n)
	if filters {
		n = p.filtersAndTests(n)
	}
	return n
}

func (p *parser) primary() node {
	t := p.next()
	at := line(t.line)
	switch t.kind {
	case nameToken:
		if v, ok := constants[t.text]; ok {
			return &constant{at, v}
		}
		p.used[t.text] = true
		return &variable{at, t.text}
	case stringToken:
		parts := []string{t.text}
		for p.current().kind == stringToken {
			parts = append(parts, p.next().text)
		}
		return &constant{at, NewText(strings.Join(parts, ""))}
	case numberToken:
		return &constant{at, t.number}
	case operatorToken:
		switch t.text {
		case "(":
			n := p.tuple(true, true)
			p.expectOperator(")")
			return n
		case "[":
			return p.made(&collection{at, listKind, p.items("]")})
		case "{":
			return p.dictionary(at)
		}
	}
	p.fail(t.line, "unexpected %q", t.describe())
	return nil
}

// items parses comma-separated expressions up to the closing bracket.
func (p *parser) items(end string) []node {
	items := []node{}
	p.brackets(end, func() { items = append(items, p.expression(true)) })
	return items
}

func (p *parser) dictionary(at line) node {
	n := &dictionary{line: at}
	p.brackets("}", func() {
		n.keys = append(n.keys, p.expression(true))
		p.expectOperator(":")
		n.values = append(n.values, p.expression(true))
	})
	return p.made(n)
}

func (p *parser) postfix(n node) node {
	for {
		switch t := p.current(); {
		case t.isOperator("."), t.isOperator("["):
			n = p.subscript(n)
		case t.isOperator("("):
			n = p.made(&call{line(t.line), n, p.arguments()})
		default:
			return n
		}
	}
}

func (p *parser) filtersAndTests(n node) node {
	for {
		switch t := p.current(); {
		case t.isOperator("|"):
			n = p.filters(n)
		case t.isName("is"):
			n = p.test(n)
		case t.isOperator("("):
			n = p.made(&call{line(t.line), n, p.arguments()})
		default:
			return n
		}
	}
}

func (p *parser) subscript(of node) node {
	t := p.next()
	at := line(t.line)
	if t.text == "." {
		name := p.next()
		switch name.kind {
		case nameToken:
			return p.made(&attribute{at, of, name.text})
		case numberToken:
			return p.made(&subscript{at, of, &constant{at, name.number}})
		}
		p.fail(name.line, "a name or a number expected, got %q", name.describe())
	}
	var indices []node
	for !p.current().isOperator("]") {
		if len(indices) > 0 {
			p.expectOperator(",")
		}
		indices = append(indices, p.index())
	}
	p.next()
	if len(indices) == 1 {
		return p.made(&subscript{at, of, indices[0]})
	}
	return p.made(&subscript{at, of, p.made(&collection{at, tupleKind, indices})})
}

// index parses an expression or a slice from:to:step.
func (p *parser) index() node {
	n := &sliceRange{line: line(p.current().line)}
	if !p.current().isOperator(":") {
		expr := p.expression(true)
		if !p.current().isOperator(":") {
			return expr
		}
		n.from = expr
	}
	p.next()
	n.to = p.sliceBound()
	if p.skipOperator(":") {
		n.step = p.sliceBound()
	}
	return p.made(n)
}

func (p *parser) sliceBound() node {
	if t := p.current(); t.isOperator(":") || t.isOperator("]") || t.isOperator(",") {
		return nil
	}
	return p.expression(true)
}

func (p *parser) arguments() argumentNodes {
	at := p.expectOperator("(")
	var a argumentNodes
	ensure := func(ok bool) {
		if !ok {
			p.fail(at.line, "invalid syntax of a call")
		}
	}
	p.brackets(")", func() {
		switch t := p.current(); {
		case p.skipOperator("*"):
			ensure(a.star == nil && a.stars == nil)
			a.star = p.expression(true)
		case p.skipOperator("**"):
			ensure(a.stars == nil)
			a.stars = p.expression(true)
		case t.kind == nameToken && p.look().isOperator("="):
			ensure(a.stars == nil && !slices.Contains(a.names, t.text))
			p.next()
			p.next()
			a.names = append(a.names, t.text)
			a.keywords = append(a.keywords, p.expression(true))
		default:
			ensure(a.star == nil && a.stars == nil && len(a.names) == 0)
			a.args = append(a.args, p.expression(true))
		}
	})
	return a
}

// filters parses the filters that follow an expression.
func (p *parser) filters(n node) node {
	for p.skipOperator("|") {
		n = p.oneFilter(n)
	}
	return n
}

func (p *parser) dottedName() token {
	t := p.expectKind(nameToken)
	parts := []string{t.text}
	for p.skipOperator(".") {
		parts = append(parts, p.expectKind(nameToken).text)
	}
	t.text = strings.Join(parts, ".")
	return t
}

func (p *parser) oneFilter(of node) node {
	t := p.dottedName()
	n := &filter{line: line(t.line), of: of, name: t.text}
	if p.current().isOperator("(") {
		n.args = p.arguments()
	}
	return p.made(n)
}

func (p *parser) test(of node) node {
	at := line(p.next().line)
	negated := p.skipName("not")
	n := &test{line: at, of: of, name: p.dottedName().text}
	t := p.current()
	switch {
	case t.isOperator("("):
		n.args = p.arguments()
	case t.isName("is"):
		p.fail(t.line, "tests cannot be chained with is")
	case t.kind == nameToken && t.text != "else" && t.text != "or" && t.text != "and",
		t.kind == stringToken, t.kind == numberToken, t.isOperator("["), t.isOperator("{"):
		p.enter()
		n.args.args = []node{p.postfix(p.primary())}
		p.leave()
	}
	if negated {
		return p.made(&unary{at, "not", p.made(n)})
	}
	return p.made(n)
}
