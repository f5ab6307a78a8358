package jinja

// Limits of a template. An untrusted template must not end the process by its size, or by its nesting in parser and
// evaluator: Go cannot recover from a stack overflow.
const (
	maxSource  = 1 << 20 // bytes
	maxTokens  = 200_000
	maxNesting = 200 // nested tags and expressions
	maxChain   = 500 // depth of an expression, including chains of operators, attributes and calls
)

// Limits of a rendering. An untrusted template is a program: it gets an error instead of the machine.
const (
	maxSteps = 20_000_000 // evaluated nodes, plus one per 64 bytes of text made
	maxText  = 64 << 20   // bytes per text
	maxDepth = 200        // nested calls of macros
	maxRange = 100_000    // items of a range, as in Jinja's sandbox
)

// maxBits limits integers: templates need no longer ones.
const maxBits = 4096

// charge counts n steps of work towards the limit.
func (s *state) charge(n int) {
	s.steps += n
	if s.steps > maxSteps || n < 0 {
		s.fail("the template does not come to an end: more than %d steps", maxSteps)
	}
}

// chargeText counts the work for a text of n bytes before it is made.
func (s *state) chargeText(n int) {
	if n > maxText || n < 0 {
		s.fail("a text of more than %d MB", maxText>>20)
	}
	s.charge(n >> 6)
}
