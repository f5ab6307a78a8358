package chat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mode says which bytes of a conversation are trained.
type Mode int

// Modes.
const (
	// Assistant trains all that the assistant writes: its words, the mark-up of its reasoning and tool calls, and the
	// end of its turns.
	Assistant Mode = iota
	// Last trains the last message of the assistant.
	Last
	// Completion trains everything that follows the last message that is not the assistant's.
	Completion
	// All trains every byte.
	All
)

var modeNames = []string{"assistant", "last", "completion", "all"}

// String is the name of the mode, as ParseMode takes it.
func (m Mode) String() string {
	if m >= 0 && int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// ParseMode is the mode of a name: assistant, last, completion or all.
func ParseMode(name string) (Mode, error) {
	if i := slices.Index(modeNames, name); i >= 0 {
		return Mode(i), nil
	}
	return 0, fmt.Errorf("no mode %q: it is one of %s", name, strings.Join(modeNames, ", "))
}

// Range is a chunk of text that is trained, Text[From:To], with its weight.
type Range struct {
	From, To int     // bytes of the text
	Weight   float64 // of its tokens in the loss; above 0
}

// Trained gives the bytes that a mode trains, in order. Messages of weight 0 have none.
//
// What the assistant writes is what is not in its prompt. Where the template has {% generation %}, that is the text of
// these tags. Elsewhere a turn of the assistant is the text of its message with the mark-up around it, and
//
//   - it is trained from the end of its header: as much of the mark-up before its first word as the generation prompt
//     has too. If the template has no generation prompt, the header is the mark-up that it puts before every answer;
//     if that is white space or nothing, it is trained, because no prompt ends with it;
//   - it is trained up to the first text of a token that ends turns (eos_token, Options.EndOfTurn) behind its last
//     word; if there is none, up to the last mark-up of the turn that is no white space; and with the
//     token that the template puts behind a last answer, if it follows the turn instead of ending it.
//
// A byte of another message, of tools or of documents is never in it.
func (r *Rendered) Trained(mode Mode) []Range {
	if r.template == nil { // nobody has rendered it
		return nil
	}
	if mode == All {
		return r.weighted(r.withEmptyReasoning([]byteRange{{0, len(r.Text)}}, 0))
	}
	messages := r.conversation.Messages
	first := len(messages) // the first message that is trained
	switch mode {
	case Assistant:
		first = 0
	case Last:
		for i, m := range messages {
			if m.isAssistant() {
				first = i
			}
		}
	case Completion:
		first = 0
		for i, m := range messages {
			if !m.isAssistant() {
				first = i + 1
			}
		}
	}
	turns := r.withEmptyReasoning(r.turns(first), first)
	if mode == Completion && len(turns) > 0 {
		end := len(r.Text)
		if r.options.AddGenerationPrompt {
			end -= len(r.trailingPrompt(end))
		}
		last := &turns[len(turns)-1]
		last.to = max(last.to, end)
	}
	return r.weighted(turns)
}

// weighted gives ranges the weights of the messages that they are of.
func (r *Rendered) weighted(ranges []byteRange) []Range {
	var out []Range
	for _, chunk := range ranges {
		for _, span := range r.Spans {
			from, to := max(chunk.from, span.From), min(chunk.to, span.To)
			if from >= to {
				continue
			}
			weight := 1.0
			if span.Message >= 0 {
				weight = r.conversation.Messages[span.Message].Weight
			}
			if weight == 0 {
				continue
			}
			if n := len(out); n > 0 && out[n-1].To == from && out[n-1].Weight == weight {
				out[n-1].To = to
				continue
			}
			out = append(out, Range{from, to, weight})
		}
	}
	return out
}

// turns are the trained bytes of the assistant's messages from a first one on.
func (r *Rendered) turns(first int) []byteRange {
	if r.template.hasTag {
		return r.tagged(first)
	}
	var turns []byteRange
	var marks *turnMarkup
	for i := first; i < len(r.conversation.Messages); i++ {
		if !r.conversation.Messages[i].isAssistant() {
			continue
		}
		if marks == nil {
			marks = r.turnMarkup()
		}
		turns = append(turns, r.turn(i, marks)...)
	}
	slices.SortFunc(turns, func(a, b byteRange) int { return a.from - b.from })
	return turns
}

// tagged are the bytes of generation tags that are of messages from a first one on.
func (r *Rendered) tagged(first int) []byteRange {
	var out []byteRange
	for _, g := range r.generated {
		message := -1
		for _, span := range r.Spans {
			if span.Message >= 0 && span.To > g.from && span.From < g.to {
				message = span.Message
				break
			}
		}
		if g.from < g.to && (message >= first || first == 0) {
			out = append(out, g)
		}
	}
	return out
}

// isWord reports whether a span is of message i's own words.
func (s Span) isWord(i int) bool { return s.Message == i && !s.Source.isFrame() }

// chunks are the parts of the text without anything of another message in which message i's bytes lie, as ranges of
// spans.
func (r *Rendered) chunks(i int) [][]Span {
	var chunks [][]Span
	from, to := -1, -1 // of spans
	flush := func() {
		if from >= 0 {
			chunks = append(chunks, r.Spans[from:to])
		}
		from = -1
	}
	for n, span := range r.Spans {
		switch {
		case span.Message == i:
			if from < 0 {
				from = n
			}
			to = n + 1
		case span.Message >= 0 || !span.Source.isFrame():
			flush()
		}
	}
	flush()
	return chunks
}

// prefer leaves the chunks that have such a span, if any has.
func prefer(chunks [][]Span, has func(Span) bool) [][]Span {
	var kept [][]Span
	for _, p := range chunks {
		if slices.ContainsFunc(p, has) {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return chunks
	}
	return kept
}

// turnChunks are the chunks of message i that are its turn: of several, those that have words, and mark-up around. Others
// are quoted by another turn.
func (r *Rendered) turnChunks(i int) [][]Span {
	chunks := prefer(r.chunks(i), func(s Span) bool { return s.isWord(i) })
	return prefer(chunks, func(s Span) bool { return s.Message == i && s.Source == Markup })
}

// edges are where the mark-up before the first word of a chunk begins and ends, and where its last word ends; that is -1
// if it has none.
func (r *Rendered) edges(i int, chunk []Span) (begin, firstWord, lastWord int) {
	begin, firstWord, lastWord = chunk[0].From, chunk[len(chunk)-1].To, -1
	for _, span := range chunk {
		if span.isWord(i) {
			firstWord = min(firstWord, span.From)
			lastWord = span.To
		}
	}
	if !slices.ContainsFunc(chunk, func(s Span) bool { return s.Source == Markup && s.Message == i }) {
		begin = r.wordsEnd(begin) // the template does not say whose the mark-up before is
	}
	return begin, firstWord, lastWord
}

// turn gives the trained bytes of message i.
func (r *Rendered) turn(i int, marks *turnMarkup) []byteRange {
	var out []byteRange
	for _, chunk := range r.turnChunks(i) {
		begin, firstWord, lastWord := r.edges(i, chunk)
		end := chunk[len(chunk)-1].To
		from := begin + headerLength(r.Text[begin:firstWord], marks.opening)
		if begin < chunk[0].From && from == begin {
			from = firstWord
		}
		if lastWord < 0 {
			lastWord = from
		}
		if to := r.endOfTurn(lastWord, end, marks); from < to {
			out = append(out, byteRange{from, to})
		}
	}
	return out
}

// headerLength is how much of the mark-up before the first word is the header of the turn, which its prompt holds.
func headerLength(frame, opening string) int {
	if opening == "" {
		return 0
	}
	if i := strings.LastIndex(frame, opening); i >= 0 {
		return i + len(opening)
	}
	space := len(frame) - len(strings.TrimLeftFunc(frame, isSpace))
	opening = strings.TrimLeftFunc(opening, isSpace)
	n := commonMarkup(frame[space:], opening)
	if n == 0 {
		return 0
	}
	return space + n
}

// commonMarkup is the length of what two chunks of mark-up begin with in common. They do not part inside of a token
// such as <|user|> or [INST].
func commonMarkup(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for n < len(a) && n > 0 && !utf8.RuneStart(a[n]) {
		n--
	}
	if n == len(a) || n == len(b) {
		return n
	}
	if i := strings.LastIndexAny(a[:n], "<["); i >= 0 && !strings.ContainsAny(a[i:n], ">]") {
		return i
	}
	return n
}

// tokenPattern is what the text of a token of mark-up looks like.
var tokenPattern = regexp.MustCompile(`^(?:<[^<>\s]+>|\[[^\[\]\s]+\])`)

// endOfTurn is where a turn ends whose words end at lastWord and whose mark-up at end.
func (r *Rendered) endOfTurn(lastWord, end int, marks *turnMarkup) int {
	tail := r.Text[lastWord:end]
	if n := r.endToken(tail); n > 0 {
		return lastWord + n
	}
	if r.options.AddGenerationPrompt && end == len(r.Text) {
		tail = strings.TrimSuffix(tail, marks.prompt)
	}
	to := lastWord + len(strings.TrimRightFunc(tail, isSpace))
	tokens := []string{marks.closing}
	if to == lastWord { // the template ends turns where the next begins
		tokens = append(r.endTokens(), marks.closing)
	}
	rest := r.Text[end:r.nextWord(end)]
	space := len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	for _, token := range tokens {
		if token != "" && strings.HasPrefix(rest[space:], token) && !strings.Contains(tail, token) {
			return end + space + len(token)
		}
	}
	return to
}

// wordsEnd is where the last words of somebody end that begin before a byte.
func (r *Rendered) wordsEnd(at int) int {
	end := 0
	for _, span := range r.Spans {
		if span.From < at && !span.Source.isFrame() {
			end = span.To
		}
	}
	return end
}

// nextWord is where the next words of somebody begin, from a byte on.
func (r *Rendered) nextWord(at int) int {
	for _, span := range r.Spans {
		if span.From >= at && !span.Source.isFrame() {
			return span.From
		}
	}
	return len(r.Text)
}

// endTokens are the texts that end a turn.
func (r *Rendered) endTokens() []string {
	tokens := slices.Clone(r.options.EndOfTurn)
	if eos, ok := r.options.Variables["eos_token"].(string); ok {
		tokens = append(tokens, eos)
	}
	return slices.DeleteFunc(tokens, func(s string) bool { return s == "" })
}

// endToken is the length of a text up to and with the first token that ends a turn, or 0.
func (r *Rendered) endToken(tail string) int {
	first := 0
	for _, token := range r.endTokens() {
		if i := strings.Index(tail, token); i >= 0 && (first == 0 || i+len(token) < first) {
			first = i + len(token)
		}
	}
	return first
}

// trailingPrompt is the generation prompt, if the text up to end ends with it.
func (r *Rendered) trailingPrompt(end int) string {
	if prompt := r.prompt(); strings.HasSuffix(r.Text[:end], prompt) {
		return prompt
	}
	return ""
}

// turnMarkup is the mark-up that a template puts around the assistant's words.
type turnMarkup struct {
	prompt  string // the generation prompt
	opening string // the header of a turn
	closing string // the token that ends a turn
}

func (r *Rendered) turnMarkup() *turnMarkup {
	m := &turnMarkup{prompt: r.prompt()}
	m.opening = m.prompt
	probe := r.probe(NewMessage("user", "Q"), NewMessage("assistant", "A"))
	if before, after, ok := probe.around(1); ok {
		if m.prompt == "" && strings.TrimFunc(before, isSpace) != "" {
			m.opening = before
		}
		m.closing = firstToken(after)
	}
	if m.closing != "" {
		return m
	}
	// A template that leaves the last turn open may end the others: with what is not the header of a user's turn.
	probe = r.probe(NewMessage("user", "Q"), NewMessage("assistant", "A"), NewMessage("user", "Q"))
	if _, between, ok := probe.around(1); ok {
		between = between[:len(between)-len(probe.Text)+probe.nextWord(len(probe.Text)-len(between))]
		m.closing = firstToken(withoutEnd(between, probe.Text[:probe.nextWord(0)]))
	}
	return m
}

// probe renders other messages with the same options; nil if the template refuses them.
func (r *Rendered) probe(messages ...Message) *Rendered {
	c := &Conversation{messages, r.conversation.Tools, r.conversation.Documents}
	rendered, err := r.template.Render(c, &Options{Variables: r.options.Variables, Now: r.options.Now})
	if err != nil {
		return nil
	}
	return rendered
}

// around is the mark-up before message i's words in its turn, and the text behind them.
func (r *Rendered) around(i int) (before, after string, ok bool) {
	if r == nil {
		return "", "", false
	}
	begin := -1
	for _, span := range r.Spans {
		if span.Message == i && begin < 0 {
			begin = span.From
		}
		if span.isWord(i) {
			return r.Text[begin:span.From], r.Text[span.To:], true
		}
	}
	return "", "", false
}

// withoutEnd is mark-up without what it has in common with the end of another; a token is not cut.
func withoutEnd(markup, other string) string {
	n := len(markup)
	for k := len(other); n > 0 && k > 0 && markup[n-1] == other[k-1]; k-- {
		n--
	}
	if i := strings.LastIndexAny(markup[:n], "<["); i >= 0 && !strings.ContainsAny(markup[i:n], ">]") {
		n += strings.IndexAny(markup[n:], ">]") + 1
	}
	return strings.ToValidUTF8(markup[:n], "")
}

// firstToken is the token that mark-up begins with, or all of it.
func firstToken(markup string) string {
	markup = strings.TrimFunc(markup, isSpace)
	if token := tokenPattern.FindString(markup); token != "" {
		return token
	}
	return markup
}

// prompt is the generation prompt: the end of the text that is rendered with it but not without, after the messages before the
// assistant's first or, if the template refuses these alone, after one message of a user.
func (r *Rendered) prompt() string {
	messages := r.conversation.Messages
	first := slices.IndexFunc(messages, Message.isAssistant)
	if first > 0 {
		if p, ok := r.promptAfter(messages[:first]); ok {
			return p
		}
	}
	p, _ := r.promptAfter([]Message{NewMessage("user", "Q")})
	return p
}

func (r *Rendered) promptAfter(messages []Message) (string, bool) {
	c := &Conversation{messages, r.conversation.Tools, r.conversation.Documents}
	o := Options{Variables: r.options.Variables, Now: r.options.Now}
	without, err := r.template.Render(c, &o)
	if err != nil {
		return "", false
	}
	o.AddGenerationPrompt = true
	with, err := r.template.Render(c, &o)
	if err != nil {
		return "", false
	}
	return with.Text[commonMarkup(with.Text, without.Text):], true
}
