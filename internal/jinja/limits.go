package jinja

// What a template may be. One from the network must not end the process by its size, nor by the depth in which it is
// parsed and evaluated: a stack of Go's that is full cannot be recovered from.
const (
	maxSource  = 1 << 20 // bytes
	maxTokens  = 200_000
	maxNesting = 200 // tags and expressions in one another
	maxChain   = 500 // nested nodes of an expression, including operators, attributes and calls in a row
)

// What a rendering may use. A template from the network is a program: it gets an error instead of the machine.
const (
	maxSteps = 20_000_000 // evaluated nodes, and one for each 64 bytes of text made
	maxText  = 64 << 20   // bytes of one text
	maxDepth = 200        // calls of macros in one another
	maxRange = 100_000    // items of a range, as Jinja's sandbox has it
)

// maxBits bounds integers: a template has no use for longer ones.
const maxBits = 4096

// charge counts work against the limit.
func (s *state) charge(n int) {
	s.steps += n
	if s.steps > maxSteps || n < 0 {
		s.fail("the template does not come to an end: more than %d steps", maxSteps)
	}
}

// chargeText counts a text of n bytes that is about to be made.
func (s *state) chargeText(n int) {
	if n > maxText || n < 0 {
		s.fail("a text of more than %d MB", maxText>>20)
	}
	s.charge(n >> 6)
}
