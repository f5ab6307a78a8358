package data

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// EncoderOptions are the settings of an Encoder.
type EncoderOptions struct {
	// Template renders conversations; a prompt with its completion becomes a user turn and an assistant
	// turn. nil means the model's template, from the vocabulary. Without any template a conversation is an
	// error, a prompt with its completion is plain text, and an instruction gets Alpaca's prompt.
	Template *chat.Template
	// RawPrompts treats prompts with completions as plain text even if there is a template.
	RawPrompts bool
	// EmptyReasoning selects whether empty reasoning blocks written by the template are trained.
	EmptyReasoning chat.EmptyReasoning
	// TrainOn selects the trained bytes of a conversation. For a prompt with a completion, chat.All trains
	// both, and the other modes only the completion. All of a text is trained.
	TrainOn chat.Mode
	// Variables are additional variables of the template, such as enable_thinking. The vocabulary's tokens
	// bos_token, eos_token, unk_token and pad_token are set by default.
	Variables map[string]any
	// Now is the time that the template sees. Zero means the day of NewEncoder, so that all examples of a
	// run, and of another run on the same day, are equal.
	Now time.Time
	// SkipBroken counts broken examples, for which Encode then returns a sample without tokens. If it is
	// nil, they are errors.
	SkipBroken *Broken
}

// An Encoder converts examples to samples. It is safe for concurrent use.
type Encoder struct {
	t     *tokenizer.Tokenizer
	o     EncoderOptions
	forms chat.Forms
	chat  chat.Options
}

// NewEncoder returns an encoder for a model's vocabulary.
func NewEncoder(t *tokenizer.Tokenizer, o EncoderOptions) (*Encoder, error) {
	if t.NumTokens() == 0 {
		return nil, errors.New("the model has no vocabulary, so text cannot be turned into tokens")
	}
	if o.Now.IsZero() {
		year, month, day := time.Now().Date()
		o.Now = time.Date(year, month, day, 0, 0, 0, 0, time.Local)
	}
	if o.Template == nil && t.ChatTemplate() != "" {
		var err error
		if o.Template, err = ModelTemplate(tokenizer.ChatTemplateKey, t); err != nil {
			return nil, err
		}
	}
	e := &Encoder{t: t, o: o, chat: RenderOptions(t, o.Variables)}
	e.chat.Now, e.chat.EmptyReasoning = o.Now, o.EmptyReasoning
	if o.Template != nil {
		e.forms = o.Template.Forms(&e.chat)
	}
	return e, nil
}

func (e *Encoder) checkMade() error {
	switch {
	case e == nil:
		return errors.New("the encoder is nil")
	case e.t == nil:
		return errors.New("the encoder is a zero value; NewEncoder makes one")
	}
	return nil
}

// Encode converts an example to a sample. BOS is in front, once, if the model wants it or the template
// writes it; a text and a completion end with EOS. A token is trained if one of its bytes is, with the
// largest weight of its bytes. Special tokens are recognised in the template's mark-up, in texts, and
// in prompts with completions that no template renders, whose mark-up is their own; never in the words
// of messages and instructions. An example without trained tokens is an *Error.
func (e *Encoder) Encode(x Example) (Sample, error) {
	s, _, err := e.encodeRendered(x)
	return s, err
}

// encodeRendered is Encode; it also returns the rendered conversation, or nil.
func (e *Encoder) encodeRendered(x Example) (Sample, *chat.Rendered, error) {
	if err := e.checkMade(); err != nil {
		return Sample{}, nil, err
	}
	s, r, err := e.encode(x)
	if err == nil && s.Targets() == 0 {
		err = &Error{Kind: NothingTrained, Reason: "no token is trained: " + e.whyNothing(x, s), Remedy: "remove the record, or train on more of it"}
	}
	if err == nil {
		s.Notes, s.Label, s.Teacher, s.Origin = notesAt(s.Notes, x), x.Label, x.Teacher, Origin{File: x.Source, Line: x.Line}
		return s, r, nil
	}
	var at *Error
	if !errors.As(err, &at) {
		at = &Error{Kind: TemplateFailed, Reason: err.Error(), Remedy: mendRecord, Option: skipBroken, Err: err}
	}
	at.File, at.Line = x.File, x.Line
	if e.o.SkipBroken.Skip(at) {
		return Sample{}, nil, nil
	}
	return Sample{}, nil, at
}

func (e *Encoder) encode(x Example) (Sample, *chat.Rendered, error) {
	switch {
	case e.isChat(x):
		return e.conversation(x)
	case x.Format == Text:
		return e.text(x), nil, nil
	}
	s, err := e.completion(x)
	return s, nil, err
}

// isChat reports whether an example is rendered by the template.
func (e *Encoder) isChat(x Example) bool {
	return len(x.Messages) > 0 && (!x.HasText() || e.o.Template != nil && !e.o.RawPrompts)
}

// Render renders the conversation of an example as Encode does.
func (e *Encoder) Render(x Example) (*chat.Rendered, error) {
	if err := e.checkMade(); err != nil {
		return nil, err
	}
	if x.PromptMessages < 0 || x.PromptMessages > len(x.Messages) {
		return nil, fmt.Errorf("the prompt has %s, the whole conversation %d", counted.Of(x.PromptMessages, "message"), len(x.Messages))
	}
	if e.o.Template == nil {
		return nil, &Error{Kind: TemplateFailed, Reason: "a conversation needs a chat template, and the model has none (" + tokenizer.ChatTemplateKey + ")",
			Remedy: "train on texts or completions, or give a template in a file", Option: otherTemplate}
	}
	c := e.forms.Convert(&x.Conversation)
	if e.o.TrainOn != chat.All {
		for i := range c.Messages[:x.PromptMessages] {
			c.Messages[i].Weight = 0
		}
	}
	return e.o.Template.Render(c, &e.chat)
}

func (e *Encoder) conversation(x Example) (Sample, *chat.Rendered, error) {
	r, err := e.Render(x)
	if err != nil {
		return Sample{}, nil, err
	}
	notes, err := e.lost(&x, r)
	if err != nil {
		return Sample{}, nil, err
	}
	trained := r.Trained(e.o.TrainOn)
	segments, ranges := closed(r, trained)
	s := e.sample(segments, ranges, r)
	s.Notes = append(notes, notesOnAnswers(r, &x, trained)...)
	if x.Format == Completion && x.HasText() && (e.hasMarkup(x.Prompt) || e.hasMarkup(x.Completion)) {
		s.Notes = append(s.Notes, Note{Kind: MarkedUp})
	}
	return s, r, nil
}

// closed returns the segments of a conversation and its trained ranges. If the template omits the end
// of the last answer's turn, closed adds it; it is trained if the answer is.
func closed(r *chat.Rendered, trained []chat.Range) ([]tokenizer.Segment, []chat.Range) {
	segments, end := segmentsOf(r), r.OpenEnd()
	if end == "" {
		return segments, trained
	}
	segments = append(segments, tokenizer.Segment{Text: end, ParseSpecial: true})
	if n := len(trained); n > 0 && strings.TrimSpace(r.Text[trained[n-1].To:]) == "" {
		trained = append(slices.Clone(trained), chat.Range{From: len(r.Text), To: len(r.Text) + len(end), Weight: trained[n-1].Weight})
	}
	return segments, trained
}

// hasMarkup reports whether a text contains special tokens.
func (e *Encoder) hasMarkup(text string) bool {
	return strings.ContainsAny(text, "<[|") && slices.ContainsFunc(e.t.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true}), e.t.IsSpecial)
}

// text encodes a plain text; all of it is trained.
func (e *Encoder) text(x Example) Sample {
	s := e.sample([]tokenizer.Segment{{Text: x.Text, ParseSpecial: true}}, []chat.Range{{To: len(x.Text), Weight: 1}}, nil)
	s.LossWeights = nil
	return s
}

func (e *Encoder) completion(x Example) (Sample, error) {
	notes, err := lostOfTexts(&x)
	if err != nil {
		return Sample{}, err
	}
	own := x.Format == Completion // contains mark-up of its own
	trained := chat.Range{From: len(x.Prompt), To: len(x.Prompt) + len(x.Completion), Weight: 1}
	if e.o.TrainOn == chat.All {
		trained.From = 0
	}
	s := e.sample([]tokenizer.Segment{{Text: x.Prompt, ParseSpecial: own}, {Text: x.Completion, ParseSpecial: own}}, []chat.Range{trained}, nil)
	if s.Notes = notes; strings.TrimSpace(x.Completion) == "" {
		s.Notes = append(s.Notes, Note{Kind: EmptyAnswer})
	}
	return s, nil
}

// sample encodes segments of text with the given trained ranges. They are the text of a rendered
// conversation; without one, when r is nil, the text ends with EOS.
func (e *Encoder) sample(segments []tokenizer.Segment, trained []chat.Range, r *chat.Rendered) Sample {
	ids, ends := encodeWithBOS(e.t, segments)
	s := Sample{Tokens: ids, LossWeights: make([]float32, len(ids))}
	if r != nil {
		s.Words = make([]bool, len(ids))
	}
	from := 0
	for i, end := range ends {
		to := end
		if e.t.IsSpecial(ids[i]) { // without the white space that some tokens include behind them
			to = min(end, from+len(e.t.Piece(ids[i])))
		}
		for len(trained) > 0 && trained[0].To <= from {
			trained = trained[1:]
		}
		s.LossWeights[i] = weightOf(trained, from, to)
		if r != nil {
			s.Words[i] = end > from && !e.t.IsSpecial(ids[i]) && !r.IsMarkup(from, end)
		}
		from = end
	}
	if n := len(s.Tokens); r == nil && e.t.EOS() != tokenizer.None && (n == 0 || !e.t.IsEOG(s.Tokens[n-1])) {
		s.Tokens = append(s.Tokens, e.t.EOS())
		s.LossWeights = append(s.LossWeights, 1)
	}
	s.LossWeights = s.LossWeights[min(1, len(s.LossWeights)):] // the first token is not predicted
	return s
}

// weightOf returns the weight of the token of bytes [from, to): the largest weight of the ranges that
// it overlaps. A token without bytes, such as the space that a vocabulary puts before words, counts as
// the byte that follows it.
func weightOf(trained []chat.Range, from, to int) float32 {
	weight := 0.0
	for _, r := range trained {
		if r.From >= max(to, from+1) {
			break
		}
		weight = max(weight, r.Weight)
	}
	return float32(weight)
}

// whyNothing returns the reason why no token of an example is trained.
func (e *Encoder) whyNothing(x Example, s Sample) string {
	if !e.isChat(x) {
		return "the record has " + counted.Of(len(s.Tokens), "token")
	}
	assistant := false
	for _, m := range x.Messages[x.PromptMessages:] {
		if m.Role() == "assistant" {
			assistant = true
			if m.Weight > 0 {
				return "the template leaves out all that the assistant says"
			}
		}
	}
	switch {
	case assistant:
		return "all assistant messages have weight 0"
	case x.PromptMessages > 0:
		return "the completion has no assistant message"
	}
	return "the conversation has no assistant message"
}

// encodingVersion is incremented when Encode's samples or notes for the same example change.
const encodingVersion = 3

// Key identifies everything that affects Encode's results: vocabulary, template, options, and the time
// if the template uses it. It is part of PrepareOptions.Key. It is empty for a zero value, which
// encodes nothing.
func (e *Encoder) Key() string {
	if e.t == nil {
		return ""
	}
	h := sha256.New()
	write := func(name string, v any) { fmt.Fprintf(h, "%s %#v\n", name, v) }
	write("encoding", encodingVersion)
	writeVocabulary(e.t, write)
	if e.o.Template != nil {
		write("template", e.o.Template.Source())
		write("variables", e.chat.Variables)
		if e.o.Template.UsesTime() {
			write("now", e.chat.Now.Unix())
		}
	}
	write("train on", e.o.TrainOn)
	write("raw prompts", e.o.RawPrompts)
	write("empty reasoning", e.o.EmptyReasoning)
	write("skip broken", e.o.SkipBroken != nil)
	return shortHash(h)
}

// writeVocabulary writes everything in a vocabulary that affects the tokens of a text.
func writeVocabulary(t *tokenizer.Tokenizer, write func(name string, v any)) {
	for _, kv := range t.KeyValues() {
		if kv.Key != tokenizer.ChatTemplateKey {
			write(kv.Key, kv.Value)
		}
	}
	write("strip right", t.Config().StripRight)
}
