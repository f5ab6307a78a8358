package chat

import (
	"cmp"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/jinja"
)

// turnMarkup is the mark-up that a template puts around the assistant's words.
type turnMarkup struct {
	prompt  string // the generation prompt
	opening string // the header of a turn
	closing string // the token that ends a turn
	past    string // the token behind an answer that further messages follow; "" if not yet known
	// afterRole maps a role to the header of turns that follow its messages. After a tool's message, some templates use
	// another header: the generation prompt alone.
	afterRole map[string]string
}

// opening returns the header of message i's turn.
func (r *Rendered) opening(i int, m *turnMarkup) string {
	messages := r.conversation.Messages
	if i == 0 || m.prompt == "" || slices.Contains([]string{"user", "system", "assistant"}, messages[i-1].Role()) {
		return m.opening
	}
	role := messages[i-1].Role()
	header, known := m.afterRole[role]
	if !known {
		header, _ = r.promptAfter(messages[:i])
		m.afterRole[role] = header
	}
	return cmp.Or(header, m.opening)
}

func (r *Rendered) turnMarkup() *turnMarkup {
	m := &turnMarkup{prompt: r.prompt(), afterRole: map[string]string{}}
	m.opening = m.prompt
	probe := r.probe(r.message("user", "Q"), r.message("assistant", "A"))
	if before, after, ok := probe.around(1); ok {
		if m.prompt == "" && strings.TrimFunc(before, jinja.IsSpace) != "" {
			m.opening = before
		}
		m.closing = firstToken(after)
	}
	if m.closing != "" {
		return m
	}
	// A template that leaves the last turn open may end the earlier ones: the token before the header of the user's
	// turn.
	probe = r.probe(r.message("user", "Q"), r.message("assistant", "A"), r.message("user", "Q"))
	if _, between, ok := probe.around(1); ok {
		between = between[:len(between)-len(probe.Text)+probe.nextWord(len(probe.Text)-len(between))]
		m.closing = firstToken(withoutEnd(between, probe.Text[:probe.firstWord(0)]))
	}
	return m
}

// past returns the token that a template puts behind an answer that further messages follow. If the model ends its
// turns with another token, as gpt-oss does, it never writes this one.
func (r *Rendered) past(m *turnMarkup) string {
	if m.past == "" {
		probe := r.probe(r.message("user", "Q"), r.message("assistant", "A"), r.message("user", "Q"))
		if _, after, ok := probe.around(1); ok {
			m.past = firstToken(after)
		}
	}
	return m.past
}

// message returns a message for probe. Its content is a list of parts if the conversation's answers are: the template
// may accept nothing else.
func (r *Rendered) message(role, content string) Message {
	m := NewMessage(role, content)
	i := slices.IndexFunc(r.conversation.Messages, Message.isAssistant)
	if i < 0 {
		return m
	}
	answer, _ := r.conversation.Messages[i].fields.Get("content")
	if _, isParts := answer.(*jinja.Sequence); isParts {
		return Forms{PartContent: true}.convert(m)
	}
	return m
}

// probe renders other messages with the same options; nil if the template rejects them.
func (r *Rendered) probe(messages ...Message) *Rendered {
	c := &Conversation{messages, r.conversation.Tools, r.conversation.Documents}
	rendered, err := r.template.Render(c, &Options{Variables: r.options.Variables, Now: r.options.Now})
	if err != nil {
		return nil
	}
	return rendered
}

// around returns the mark-up before message i's words in its turn, and the text after the first of them.
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

// firstWord returns the beginning of message i's first word.
func (r *Rendered) firstWord(i int) int {
	at := slices.IndexFunc(r.Spans, func(s Span) bool { return s.isWord(i) })
	if at < 0 {
		return len(r.Text)
	}
	return r.Spans[at].From
}

// withoutEnd returns markup without its common suffix with other. It does not split a token.
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

// prompt returns the generation prompt: the suffix that AddGenerationPrompt adds after the messages before the first
// answer or, if the template rejects these messages alone, after a single message of a user.
func (r *Rendered) prompt() string {
	messages := r.conversation.Messages
	first := slices.IndexFunc(messages, Message.isAssistant)
	if first > 0 {
		if p, ok := r.promptAfter(messages[:first]); ok {
			return p
		}
	}
	p, _ := r.promptAfter([]Message{r.message("user", "Q")})
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
	if prompt := with.Text[commonMarkup(with.Text, without.Text):]; prompt != "" {
		return prompt, true
	}
	return r.constantPrompt(messages, without.Text), true
}

// constantPrompt returns the generation prompt of a template that always writes it: the end of the messages' text that
// coincides with the header of an answer.
func (r *Rendered) constantPrompt(messages []Message, text string) string {
	answered := r.probe(append(slices.Clone(messages), r.message("assistant", "A"))...)
	if answered == nil {
		return ""
	}
	turn := slices.IndexFunc(answered.Spans, func(s Span) bool { return s.Message == len(messages) })
	if turn < 0 {
		return ""
	}
	begin := answered.Spans[turn].From
	if begin >= len(text) || text[:begin] != answered.Text[:begin] || commonMarkup(text[begin:], answered.Text[begin:]) == 0 {
		return ""
	}
	return text[begin:]
}
