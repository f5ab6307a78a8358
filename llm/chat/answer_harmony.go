package chat

import (
	"regexp"
	"strings"
)

// Marks of OpenAI's Harmony, which gpt-oss writes: an answer consists of messages, each of them for a channel or a tool.
//
//	<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
const (
	startMark   = "<|start|>"
	channelMark = "<|channel|>"
	messageMark = "<|message|>"
)

// harmonyEnds end a message.
var harmonyEnds = []string{"<|end|>", "<|call|>", "<|return|>", startMark, channelMark}

var (
	harmonyChannel = regexp.MustCompile(`<\|channel\|>\s*(\w+)`)
	harmonyTool    = regexp.MustCompile(`to=(?:functions\.)?([^\s<]+)`)
)

// isHarmony reports whether a template writes Harmony.
func isHarmony(source string) bool {
	return strings.Contains(source, startMark) && strings.Contains(source, channelMark) && strings.Contains(source, messageMark)
}

// A harmonyReader reads messages of Harmony.
type harmonyReader struct {
	sum    Answer
	rest   string // escaped where it is text of ordinary tokens
	header bool   // rest begins within the header of a message
	part   *string
}

func newHarmonyReader(prompt string) *harmonyReader {
	r := &harmonyReader{header: true}
	if at := strings.LastIndex(prompt, startMark); at >= 0 { // the prompt begins the first header
		r.write(prompt[at+len(startMark):])
		r.sum = Answer{} // an answer that is continued
	}
	return r
}

func (r *harmonyReader) write(text string) {
	r.rest += text
	for r.step() {
	}
}

// escape stands for < in text of ordinary tokens, so that the text has no mark. It is no character of UTF-8.
const escape = "\xff"

func (r *harmonyReader) writeText(text string) { r.write(strings.ReplaceAll(text, "<", escape)) }

func unescaped(text string) string { return strings.ReplaceAll(text, escape, "<") }

// step reads a header or the text of a message as far as it is there, and reports whether more can be read.
func (r *harmonyReader) step() bool {
	if r.header {
		header, rest, whole := strings.Cut(r.rest, messageMark)
		if whole {
			r.header, r.rest, r.part = false, rest, r.partOf(header)
		}
		return whole
	}
	at, mark := firstOf(r.rest, harmonyEnds)
	if mark == "" {
		at = len(r.rest) - heldBack(r.rest, harmonyEnds...)
	}
	*r.part += unescaped(r.rest[:at])
	if r.rest = r.rest[at:]; mark == "" {
		return false
	}
	r.header = true
	if mark != channelMark {
		r.rest = r.rest[len(mark):]
	}
	return true
}

// partOf returns the part to which a message with a header belongs.
func (r *harmonyReader) partOf(header string) *string {
	if tool := harmonyTool.FindStringSubmatch(header); tool != nil {
		r.sum.Calls = append(r.sum.Calls, ToolCall{ID: newCallID(), Name: unescaped(tool[1])})
		return &r.sum.Calls[len(r.sum.Calls)-1].Arguments
	}
	if channel := harmonyChannel.FindStringSubmatch(header); channel != nil && channel[1] == "analysis" {
		return separated(&r.sum.Reasoning)
	}
	return separated(&r.sum.Text)
}

// separated returns a part, after an empty line if it has text.
func separated(part *string) *string {
	if *part != "" {
		*part += "\n\n"
	}
	return part
}

func (r *harmonyReader) end() {
	if !r.header {
		*r.part += unescaped(r.rest)
	} else if !strings.Contains(r.rest, "<|") { // no header: the model does not write Harmony
		r.sum.Text += unescaped(strings.TrimPrefix(r.rest, "assistant"))
	}
	r.rest = ""
}

func (r *harmonyReader) answer() Answer { return r.sum }

// firstOf returns the index of the first of several marks, and the mark; "" if there is none.
func firstOf(text string, marks []string) (at int, mark string) {
	at = len(text)
	for _, m := range marks {
		if i := strings.Index(text[:min(len(text), at+len(m))], m); i >= 0 && i < at {
			at, mark = i, m
		}
	}
	return at, mark
}
