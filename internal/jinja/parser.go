package jinja

// parser is a recursive descent over the tokens, with the grammar of jinja2.parser.
type parser struct {
	name          string
	tokens        []token
	pos           int
	nesting       int
	tags          []string        // open ones, for errors
	loops         int             // open ones: break and continue need one
	hasGeneration bool            // a generation tag was seen
	used          map[string]bool // names that were read
	depth         map[node]int    // of expressions: how many nodes are evaluated in one another; 1 if it is not there
}

func (p *parser) current() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (p *parser) look() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) fail(line int, format string, args ...any) { fail(p.name, line, format, args...) }

// enter bounds recursion; the caller defers leave.
func (p *parser) enter() {
	p.nesting++
	if p.nesting > maxNesting {
		p.fail(p.current().line, "nested more than %d deep", maxNesting)
	}
}

func (p *parser) leave() { p.nesting-- }

// made bounds the depth in which an expression is evaluated. It is called for each that has others in it.
func (p *parser) made(n node) node {
	depth := 0
	for _, operand := range operands(n) {
		if operand != nil {
			depth = max(depth, p.depth[operand], 1)
		}
	}
	if depth++; depth > maxChain {
		p.fail(n.at(), "an expression of more than %d operators, attributes, calls or brackets in one another or in a row", maxChain)
	}
	p.depth[n] = depth
	return n
}

func (p *parser) skipName(name string) bool {
	if p.current().isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipOperator(op string) bool {
	if p.current().isOperator(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOperator(op string) token {
	if t := p.current(); !t.isOperator(op) {
		p.fail(t.line, "expected %q, got %q", op, t.describe())
	}
	return p.next()
}

func (p *parser) expectName(name string) token {
	if t := p.current(); !t.isName(name) {
		p.fail(t.line, "expected %q, got %q", name, t.describe())
	}
	return p.next()
}

func (p *parser) expectKind(kind tokenKind) token {
	if t := p.current(); t.kind != kind {
		p.fail(t.line, "expected %q, got %q", token{kind: kind, text: "name"}.describe(), t.describe())
	}
	return p.next()
}
