package data

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goggml/ggml/llm/chat"
)

// turnBegin and turnEnd match mark-up of turns in published chat templates, at the ends of a text.
var (
	turnBegin = regexp.MustCompile(`^\s*(?:<s>\s*)?(\[INST\]|<<SYS>>|<\|(?:im_start|start_header_id|begin_of_text|start_of_role|user|assistant|system|start|START_OF_TURN_TOKEN)\|>|<start_of_turn>|<\|turn>|<[|｜](?:User|Assistant)[|｜]>|<｜begin▁of▁sentence｜>)`)
	turnEnd   = regexp.MustCompile(`(\[/INST\]|<\|(?:im_end|eot_id|end|eom_id|end_of_text|endoftext|END_OF_TURN_TOKEN|end_of_turn)\|>|<end_of_turn>|<turn\|>|<｜end▁of▁sentence｜>|</s>|### Response:)\s*$`)
)

// turnMarkup returns the turn mark-up that a text begins or ends with; "" if there is none. Mark-up
// inside a text does not count: the text is about it.
func turnMarkup(text string) string {
	if m := turnBegin.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	m := turnEnd.FindStringSubmatch(text)
	if m == nil || m[1] == "</s>" && strings.Contains(text, "<s>") { // strikethrough in HTML
		return ""
	}
	return m[1]
}

// foreignMarkup returns turn mark-up in the words of an example. It skips an end of turn that the
// vocabulary has in an answer, which is a separate finding. Texts without a template may have mark-up
// if the vocabulary has tokens for it.
func (x *inspector) foreignMarkup(e *Example) string {
	isChat := x.encoder.isChat(*e)
	isOwn := func(token string) bool { _, is := x.t.TokenID(token); return is }
	if !isChat {
		for _, text := range []string{e.Text, e.Prompt, e.Completion} {
			if token := turnMarkup(text); markup.MatchString(token) && !isOwn(token) {
				return token
			}
		}
		return ""
	}
	for _, m := range e.Messages {
		token := turnMarkup(m.Content())
		if token != "" && !(m.Role() == "assistant" && slices.Contains(x.encoder.chat.EndOfTurn, token)) {
			return token
		}
	}
	return ""
}

// controlCharacter returns a control character in a text that does not belong in text, such as U+0000;
// "" if there is none. Form feeds and terminal escapes are allowed: programs and their output have
// them.
func controlCharacter(text string) string {
	at := strings.IndexFunc(text, func(r rune) bool {
		switch r {
		case '\t', '\n', '\v', '\f', '\r', '\x1b', '\u0085':
			return false
		}
		return r < ' ' || r >= 0x7f && r < 0xa0
	})
	if at < 0 {
		return ""
	}
	r, _ := utf8.DecodeRuneInString(text[at:])
	return fmt.Sprintf("%U", r)
}

// Escapes written as text: a line end after a word or punctuation and before another line end, a
// capital, a digit or a list mark; a character escape in a word; an HTML entity.
var (
	escapedLine      = regexp.MustCompile(`[\p{L}\p{N}.,:;!?)]\\n(?:\\n|[\p{Lu}\p{N}*•-]|\s*$)`)
	escapedCharacter = regexp.MustCompile(`\p{L}\\u[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{4}\p{L}`)
	escapedSign      = regexp.MustCompile(`&(?:nbsp|quot|amp|lt|gt|apos|hellip|mdash|ndash|[lr][sd]quo|#\d{2,5});`)
	// isAboutCode matches text that may contain escapes on purpose.
	isAboutCode = regexp.MustCompile("(?i)`|</?[a-z]|html|xml|json|regex|latex|escape|\\\\[a-z]*[{(\\[]")
	inQuotes    = regexp.MustCompile(`"[^"]*"|(?:^|[\s(=,:\[])'[^']*'`)
)

// escapedTwice returns an escape in the words of an example; "" if there is none, or if the example is
// about code.
func escapedTwice(texts []string) string {
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.ContainsAny(text, `\&`) }) ||
		slices.ContainsFunc(texts, isAboutCode.MatchString) {
		return ""
	}
	for _, text := range texts {
		text = inQuotes.ReplaceAllString(text, "")
		if sign := escapedSign.FindString(text); sign != "" {
			return sign
		}
		if escapedCharacter.MatchString(text) {
			return `\u`
		}
		if !strings.Contains(text, "\n") && escapedLine.MatchString(text) {
			return `\n`
		}
	}
	return ""
}

// repeatsExchange reports whether a question has the same answer twice in a conversation. Short
// exchanges, such as thanks, may repeat.
func repeatsExchange(messages []chat.Message) bool {
	const short = 20 // bytes
	known := map[[2]string]bool{}
	for i := 1; i < len(messages); i++ {
		question, answer := messages[i-1], messages[i]
		if question.Role() != "user" || answer.Role() != "assistant" || len(answer.Calls()) > 0 {
			continue
		}
		pair := [2]string{strings.TrimSpace(question.Content()), strings.TrimSpace(answer.Content())}
		if len(pair[0])+len(pair[1]) < short || pair[0] == "" {
			continue
		}
		if known[pair] {
			return true
		}
		known[pair] = true
	}
	return false
}

// lacksCall reports whether a tool answers without a call. Calls may be part of the preceding text.
func lacksCall(messages []chat.Message) bool {
	isTool := func(m chat.Message) bool { return slices.Contains([]string{"tool", "function", "ipython"}, m.Role()) }
	for i, m := range messages {
		if !isTool(m) || i > 0 && isTool(messages[i-1]) {
			continue
		}
		if i == 0 {
			return true
		}
		before := messages[i-1]
		if before.Role() != "assistant" || len(before.Calls()) == 0 && !strings.ContainsAny(before.Content()+before.Reasoning(), "{[<(") {
			return true
		}
	}
	return false
}
