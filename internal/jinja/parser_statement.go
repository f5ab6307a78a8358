package jinja

import (
	"maps"
	"slices"
)

// template parses a whole template.
func (p *parser) template() []node {
	body := p.body()
	if t := p.current(); t.kind != eofToken {
		p.fail(t.line, "unexpected %q", t.describe())
	}
	return body
}

// body parses statements up to one of the end tags, which it does not consume, or the end of the file.
func (p *parser) body(ends ...string) []node {
	p.enter()
	defer p.leave()
	var out []node
	for {
		t := p.current()
		switch t.kind {
		case eofToken:
			if len(ends) > 0 {
				p.fail(t.line, "unexpected end of template: %q is open, expected %q", p.tags[len(p.tags)-1], ends)
			}
			return out
		case dataToken:
			p.next()
			out = append(out, &output{line: line(t.line), data: t.text})
		case variableBegin:
			p.next()
			expr := p.tuple(true, false)
			p.expectKind(variableEnd)
			out = append(out, &output{line: line(t.line), exprs: []node{expr}})
		case blockBegin:
			p.next()
			if tag := p.current(); tag.kind == nameToken && slices.Contains(ends, tag.text) {
				return out
			}
			out = append(out, p.statement())
			p.expectKind(blockEnd)
		default:
			p.fail(t.line, "unexpected %q", t.describe())
		}
	}
}

// block parses the rest of a tag and its body, through one of the end tags, and returns which.
func (p *parser) block(ends ...string) (body []node, end string) {
	p.skipOperator(":")
	p.expectKind(blockEnd)
	body = p.body(ends...)
	return body, p.next().text
}

func (p *parser) statement() node {
	t := p.current()
	if t.kind != nameToken {
		p.fail(t.line, "a tag's name expected, got %q", t.describe())
	}
	parse := statements[t.text]
	if parse == nil {
		if len(p.tags) > 0 {
			p.fail(t.line, "unknown tag %q; the innermost open one is %q", t.text, p.tags[len(p.tags)-1])
		}
		p.fail(t.line, "unknown tag %q", t.text)
	}
	p.tags = append(p.tags, t.text)
	defer func() { p.tags = p.tags[:len(p.tags)-1] }()
	p.next()
	return parse(p, line(t.line))
}

var statements map[string]func(*parser, line) node

func init() {
	statements = map[string]func(*parser, line) node{
		"for": (*parser).forLoop, "if": (*parser).ifElse, "set": (*parser).set, "macro": (*parser).macro,
		"call": (*parser).callBlock, "filter": (*parser).filterBlock, "with": (*parser).with,
		"print": (*parser).print, "block": (*parser).namedBlock, "autoescape": (*parser).autoescape,
		"generation": (*parser).generation,
		"break":      func(p *parser, at line) node { return p.jump(at, breakSignal) },
		"continue":   func(p *parser, at line) node { return p.jump(at, continueSignal) },
	}
	for _, tag := range []string{"include", "import", "from", "extends"} {
		statements[tag] = func(p *parser, at line) node { return p.unsupported(at, tag) }
	}
}

func (p *parser) jump(at line, s signal) node {
	if p.loops == 0 {
		p.fail(int(at), "break and continue stand inside of a loop")
	}
	return &jump{at, s}
}

// unsupported skips a tag that needs other templates; chat templates have no others.
func (p *parser) unsupported(at line, tag string) node {
	for p.current().kind != blockEnd && p.current().kind != eofToken {
		p.next()
	}
	return &unsupported{at, tag}
}

func (p *parser) forLoop(at line) node {
	n := &forLoop{line: at, target: p.target("in")}
	p.expectName("in")
	n.iterable = p.tupleOf(false, false, "recursive")
	if p.skipName("if") {
		n.filter = p.expression(true)
	}
	n.recursive = p.skipName("recursive")
	p.loops++
	var end string
	n.body, end = p.block("endfor", "else")
	p.loops--
	if end == "else" {
		n.none, _ = p.block("endfor")
	}
	return n
}

func (p *parser) ifElse(at line) node {
	n := &ifElse{line: at}
	for {
		n.tests = append(n.tests, p.tuple(false, false))
		body, end := p.block("elif", "else", "endif")
		n.bodies = append(n.bodies, body)
		switch end {
		case "endif":
			return n
		case "else":
			body, _ = p.block("endif")
			n.bodies = append(n.bodies, body)
			return n
		}
	}
}

func (p *parser) set(at line) node {
	target := p.target("", true)
	if p.skipOperator("=") {
		return &set{at, target, p.tuple(true, false)}
	}
	n := &setBlock{line: at, target: target, filter: p.filters(nil)}
	n.body, _ = p.outsideLoops(func() ([]node, string) { return p.block("endset") })
	return n
}

// outsideLoops parses a body that is a function of its own: it cannot break out of an enclosing loop.
func (p *parser) outsideLoops(parse func() ([]node, string)) ([]node, string) {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return parse()
}

func (p *parser) signature() []parameter {
	var params []parameter
	p.expectOperator("(")
	for !p.current().isOperator(")") {
		if len(params) > 0 {
			p.expectOperator(",")
		}
		param := parameter{name: p.nameTarget()}
		if p.skipOperator("=") {
			param.preset = p.expression(true)
		} else if len(params) > 0 && params[len(params)-1].preset != nil {
			p.fail(p.current().line, "a parameter without a default follows one with a default")
		}
		params = append(params, param)
	}
	p.next()
	return params
}

func (p *parser) macro(at line) node {
	n := &macroDef{line: at, name: p.nameTarget()}
	n.params = p.signature()
	outer := p.used
	p.used = map[string]bool{}
	n.body, _ = p.outsideLoops(func() ([]node, string) { return p.block("endmacro") })
	n.used = p.used
	maps.Copy(outer, n.used)
	p.used = outer
	return n
}

func (p *parser) callBlock(at line) node {
	caller := &macroDef{line: at, name: "caller"}
	if p.current().isOperator("(") {
		caller.params = p.signature()
	}
	called, ok := p.expression(true).(*call)
	if !ok {
		p.fail(int(at), "a call block needs a call")
	}
	caller.body, _ = p.outsideLoops(func() ([]node, string) { return p.block("endcall") })
	return &callBlock{at, called, caller}
}

func (p *parser) filterBlock(at line) node {
	n := &filterBlock{line: at, filter: p.filters(p.oneFilter(nil))}
	n.body, _ = p.outsideLoops(func() ([]node, string) { return p.block("endfilter") })
	return n
}

func (p *parser) with(at line) node {
	n := &withBlock{line: at}
	for p.current().kind != blockEnd && !p.current().isOperator(":") {
		if len(n.targets) > 0 {
			p.expectOperator(",")
		}
		n.targets = append(n.targets, p.target(""))
		p.expectOperator("=")
		n.values = append(n.values, p.expression(true))
	}
	n.body, _ = p.block("endwith")
	return n
}

func (p *parser) print(at line) node {
	n := &output{line: at, exprs: []node{}}
	for p.current().kind != blockEnd {
		if len(n.exprs) > 0 {
			p.expectOperator(",")
		}
		n.exprs = append(n.exprs, p.expression(true))
	}
	return n
}

func (p *parser) namedBlock(at line) node {
	name := p.expectKind(nameToken).text
	p.skipName("scoped")
	p.skipName("required")
	n := &block{line: at}
	n.body, _ = p.outsideLoops(func() ([]node, string) { return p.block("endblock") })
	p.skipName(name)
	return n
}

func (p *parser) autoescape(at line) node {
	n := &block{line: at, escape: p.expression(true)}
	n.body, _ = p.block("endautoescape")
	return n
}

func (p *parser) generation(at line) node {
	p.hasGeneration = true
	n := &generation{line: at}
	n.body, _ = p.outsideLoops(func() ([]node, string) { return p.block("endgeneration") })
	return n
}

func (p *parser) nameTarget() string {
	t := p.expectKind(nameToken)
	if _, reserved := constants[t.text]; reserved {
		p.fail(t.line, "can't assign to %q", t.text)
	}
	return t.text
}

// target parses an assignment target: a name, a tuple of names, or an attribute of a namespace.
func (p *parser) target(end string, namespaces ...bool) node {
	p.enter()
	defer p.leave()
	at := line(p.current().line)
	isEnd := func(items []node) bool {
		t := p.current()
		return len(items) > 0 && (t.kind == blockEnd || t.isOperator(")") || t.isOperator("=") || end != "" && t.isName(end))
	}
	items, isTuple := p.commas(isEnd, func() node { return p.oneTarget(len(namespaces) > 0) })
	if !isTuple {
		return items[0]
	}
	return &collection{at, tupleKind, items}
}

func (p *parser) oneTarget(namespaces bool) node {
	t := p.current()
	if p.skipOperator("(") {
		n := p.target("")
		p.expectOperator(")")
		return n
	}
	name := p.nameTarget()
	if namespaces && p.skipOperator(".") {
		return &namespaceRef{line(t.line), name, p.expectKind(nameToken).text}
	}
	return &variable{line(t.line), name}
}
