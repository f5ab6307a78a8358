package jinja

// parser is a recursive descent parser over the tokens, with the grammar of jinja2.parser.
type parser struct {
	name          string
	tokens        []token
	pos           int
	nesting       int
	tags          []string        // open tags, for errors
	loops         int             // number of open loops, which break and continue need
	hasGeneration bool            // whether there is a generation tag
	used          map[string]bool // names that are read
	depth         map[node]int    // evaluation depth of expressions; 1 if absent
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

// enter limits recursion; the caller defers leave.
func (p *parser) enter() {
	p.nesting++
	if p.nesting > maxNesting {
		p.fail(p.current().line, "nested more than %d deep", maxNesting)
	}
}

func (p *parser) leave() { p.nesting-- }

// made limits the evaluation depth of an expression. Call it for each node with operands.
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

func (p *parser) skipName(name string) bool   { return p.skip(p.current().isName(name)) }
func (p *parser) skipOperator(op string) bool { return p.skip(p.current().isOperator(op)) }

func (p *parser) skip(is bool) bool {
	if is {
		p.next()
	}
	return is
}

func (p *parser) expectName(name string) token   { return p.expect(p.current().isName(name), name) }
func (p *parser) expectOperator(op string) token { return p.expect(p.current().isOperator(op), op) }
func (p *parser) expectKind(kind tokenKind) token {
	return p.expect(p.current().kind == kind, token{kind: kind, text: "name"}.describe())
}

func (p *parser) expect(is bool, want string) token {
	if t := p.current(); !is {
		p.fail(t.line, "expected %q, got %q", want, t.describe())
	}
	return p.next()
}

// commas parses comma-separated items up to an end, which may follow a comma; isList is true if there is a comma.
func (p *parser) commas(isEnd func(items []node) bool, item func() node) (items []node, isList bool) {
	for {
		if len(items) > 0 {
			p.expectOperator(",")
		}
		if isEnd(items) {
			return items, isList
		}
		items = append(items, item())
		if !p.current().isOperator(",") {
			return items, isList
		}
		isList = true
	}
}

// brackets parses comma-separated items, with an optional trailing comma, up to the closing bracket.
func (p *parser) brackets(end string, item func()) {
	for first := true; !p.current().isOperator(end); first = false {
		if !first {
			p.expectOperator(",")
			if p.current().isOperator(end) {
				break
			}
		}
		item()
	}
	p.next()
}
