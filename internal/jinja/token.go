package jinja

type tokenKind uint8

const (
	eofToken tokenKind = iota
	dataToken
	variableBegin
	variableEnd
	blockBegin
	blockEnd
	nameToken
	stringToken
	numberToken
	operatorToken
)

type token struct {
	kind   tokenKind
	line   int
	text   string // of names, operators, strings and data
	number Value  // of numbers
}

// describe names a token in an error.
func (t token) describe() string {
	switch t.kind {
	case eofToken:
		return "end of template"
	case variableBegin:
		return "{{"
	case variableEnd:
		return "}}"
	case blockBegin:
		return "{%"
	case blockEnd:
		return "%}"
	case dataToken:
		return "text"
	case numberToken:
		return str(t.number).s
	}
	return t.text
}

func (t token) isName(name string) bool { return t.kind == nameToken && t.text == name }

func (t token) isOperator(op string) bool { return t.kind == operatorToken && t.text == op }
