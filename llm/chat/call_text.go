package chat

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A CallText is how a model writes calls by a form: Begin, a call, then any number of Between and a call, then End. A call is
// the name, Inner and the arguments. [CallIDMark] and [CallIndexMark] stand for IDs and indices.
type CallText struct {
	Mark             string // that Begin begins with; "" if other answers begin so too
	Begin, Inner     string
	Between          string // "": an answer has one call
	End              string
	IsArgumentsFirst bool           // a call is the arguments, Inner and the name
	Parameters       *ParameterText // nil: the arguments are a JSON object
}

// A ParameterText is how a parameter is written: Before, its key, Text or JSON by its type, its value, and After. The value of a
// string parameter is the string itself, which cannot have Close.
type ParameterText struct{ Before, Text, JSON, After, Close string }

// Characters that stand for what differs from call to call.
const (
	CallIDMark    = "\x00" // an ID of nine letters or digits, in Begin, Between and End
	CallIndexMark = "\x01" // a number, in Inner
)

var digits = regexp.MustCompile(`\d+`)

// CallText returns how calls are written; false if the form is unknown, or one whose text this package cannot write.
func (f *AnswerForm) CallText() (CallText, bool) {
	switch {
	case f == nil || f.text == nil && !f.harmony:
		return CallText{}, false
	case f.harmony:
		return CallText{
			Mark: "<|channel|>commentary to=functions.", Begin: "<|channel|>commentary to=functions.", Inner: " <|constrain|>json" + messageMark, End: "<|call|>",
		}, true
	}
	return *f.text, true
}

// callText finds how the form writes the calls of a trial: as the template renders them, or as its description says. It is nil
// if the form does not read its own text.
func (t *Template) callText(f *callForm, forms Forms, o Options) *CallText {
	if f == nil {
		return nil
	}
	for _, calls := range []string{trialCalls + moreCalls, trialCalls} {
		prompt, text := t.tryCalls(forms, o, calls)
		if text == "" || !f.readsTrial(prompt, text, calls != trialCalls) {
			continue
		}
		if found := f.textOf(strings.TrimSuffix(text, t.endOfTrial(forms, o)), calls != trialCalls); found != nil {
			return found
		}
	}
	if f.described != "" && f.readsTrial("", f.described, true) {
		return f.textOf(f.described, true)
	}
	return nil
}

// endOfTrial returns what the template writes after an answer.
func (t *Template) endOfTrial(forms Forms, o Options) string {
	talk := &Conversation{Messages: []Message{NewMessage("user", trialQuestion), NewMessage("assistant", trialAnswer)}}
	rendered, err := t.Render(forms.Convert(talk), &o)
	if err != nil {
		return ""
	}
	_, end, _ := strings.Cut(rendered.Text, trialAnswer)
	return end
}

// textOf divides the text of the trial's calls.
func (f *callForm) textOf(text string, both bool) *CallText {
	c, at := &CallText{}, max(0, strings.IndexAny(text, "{["))
	if f.mark != "" {
		before, _, _ := strings.Cut(text, "trial_one")
		at, c.Mark = firstOf(before, append(slices.Clone(f.drop), f.mark))
	}
	if c.Mark == "" && f.mark != "" { // the prompt has the mark
		at = 0
	}
	text = text[at:]
	p, isParameters := f.arguments.(*parameters)
	switch {
	case isParameters:
		if !c.divideParameters(text, p, both) {
			return nil
		}
	case f.header == nil || f.arguments == argumentsForm(jsonArguments{}):
		if !c.divideJSON(text, both) {
			return nil
		}
	default:
		return nil
	}
	ids := strings.NewReplacer("call00001", CallIDMark, "call00002", CallIDMark)
	c.Inner = digits.ReplaceAllString(c.Inner, CallIndexMark)
	c.Begin, c.Between, c.End = ids.Replace(c.Begin), ids.Replace(c.Between), ids.Replace(c.End)
	return c
}

// divideJSON divides calls whose arguments are a JSON object.
func (c *CallText) divideJSON(text string, both bool) bool {
	name, from, to := strings.Index(text, "trial_one"), 0, 0
	if from, to = objectIn(text, trialArguments); name < 0 || to == 0 {
		return false
	}
	first, last := min(name, from), max(name+len("trial_one"), to)
	c.Begin, c.End = text[:first], text[last:]
	if c.IsArgumentsFirst = from < name; c.IsArgumentsFirst {
		c.Inner = text[to:name]
	} else {
		c.Inner = text[name+len("trial_one") : from]
	}
	if !both {
		return true
	}
	rest := c.End
	name = strings.Index(rest, "trial_two")
	if from, to = objectIn(rest, moreArguments); name < 0 || to == 0 || (from < name) != c.IsArgumentsFirst {
		return false
	}
	c.Between, c.End = rest[:min(name, from)], rest[max(name+len("trial_two"), to):]
	return c.Between != ""
}

// objectIn returns where a text has a JSON object, to 0 if it has none.
func objectIn(text, object string) (from, to int) {
	var want any
	if json.Unmarshal([]byte(object), &want) != nil {
		return 0, 0
	}
	for i := range len(text) {
		if text[i] != '{' {
			continue
		}
		n, _ := scanJSON(text[i:])
		var got any
		if json.Unmarshal([]byte(text[i:i+n]), &got) == nil && reflect.DeepEqual(got, want) {
			return i, i + n
		}
	}
	return 0, 0
}

// divideParameters divides calls whose parameters have mark-up.
func (c *CallText) divideParameters(text string, form *parameters, both bool) bool {
	parts := []string{"trial_one", "first_key", "value of one", "second_key", "7"}
	if both {
		parts = append(parts, "trial_two", "third_key", "value of two")
	}
	var between []string
	for _, part := range parts {
		before, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		between, text = append(between, before), rest
	}
	before := commonSuffix(between[1], between[3])
	p := &ParameterText{Before: before, Text: between[2], JSON: between[4], After: strings.TrimSuffix(between[3], before), Close: form.close}
	c.Begin, c.Inner, c.Parameters = between[0], strings.TrimSuffix(between[1], before), p
	end, ok := strings.CutPrefix(text, p.After)
	if both && ok {
		c.Between, ok = strings.CutPrefix(between[5], p.After)
	}
	c.End = end
	unnumbered := func(text string) string { return digits.ReplaceAllString(text, "") }
	return ok && (!both || unnumbered(between[6]) == unnumbered(between[1]) && between[7] == between[2])
}

func commonSuffix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return a[len(a)-n:]
}
