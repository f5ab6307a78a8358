package tokenizer

import "slices"

// An attr is a set of token attributes. A token has the attribute of its type; known end-of-turn and
// fill-in-the-middle tokens count as control tokens even if a file does not mark them.
type attr uint8

const (
	attrNormal attr = 1 << iota
	attrUnknown
	attrControl
	attrUserDefined
	attrByte

	// Hidden tokens are decoded to nothing unless ShowSpecial is set.
	attrHidden = attrUnknown | attrControl
)

func attrOf(t TokenType) attr {
	switch t {
	case Normal:
		return attrNormal
	case Unknown:
		return attrUnknown
	case Control:
		return attrControl
	case UserDefined:
		return attrUserDefined
	case Byte:
		return attrByte
	}
	return 0
}

// Texts that identify tokens if no key names them, in order of preference.
var (
	eotTexts = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
		"<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}
	eogTexts = append([]string{"<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "</s>", "<|eom_id|>", "[EOS]",
		"<eos>", "<turn|>", "<|tool_response>", "[e~[", "<|ifm|im_end|>"}, eotTexts...)

	// Tokens of fill-in-the-middle training, by role. The last three roles end a generation.
	fillTexts = [][]string{
		{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>",
			"<|plamo:fim_prefix|>"},
		{"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>",
			"<|plamo:fim_suffix|>"},
		{"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>",
			"<|plamo:fim_middle|>"},
		{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
		{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
		{"<|file_sep|>", "<|plamo:file_separator|>"},
	}
	firstEndingFill = 3

	// Tokens that structure a message and must stay visible in its text.
	visibleTexts = []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}
)

// findSpecial sets the attributes, the EOT token and the set of tokens that
// end a generation.
func (t *Tokenizer) findSpecial() {
	t.attrs = make([]attr, len(t.texts))
	for i := range t.attrs {
		t.attrs[i] = attrNormal
		if len(t.cfg.Types) > 0 {
			t.attrs[i] = attrOf(t.cfg.Types[i])
		}
	}
	t.eog = map[ID]bool{}
	for _, id := range t.cfg.ExtraEOG {
		t.eog[id] = true
	}
	t.eot = t.cfg.EOT
	if t.eot == None {
		t.eot = t.firstOf(eotTexts)
		t.mark(t.eot)
	}
	for role, texts := range fillTexts {
		id := t.firstOf(texts)
		t.mark(id)
		if id != None && role >= firstEndingFill {
			t.eog[id] = true
		}
	}
	for _, text := range eogTexts {
		if id, ok := t.ids[text]; ok {
			t.mark(id)
			t.eog[id] = true
		}
	}
	for _, text := range visibleTexts {
		if id, ok := t.ids[text]; ok {
			t.attrs[id] = attrUserDefined
		}
	}
	for _, id := range []ID{t.cfg.EOS, t.eot} {
		if id != None {
			t.eog[id] = true
		}
	}
	t.exemptInnerEnds()
	t.collectSpecial()
}

// exemptInnerEnds removes tokens that end a message in some formats but only a part of a message in others; other
// tokens of the vocabulary identify the format.
func (t *Tokenizer) exemptInnerEnds() {
	has := func(text string) bool {
		id, ok := t.ids[text]
		return ok && t.eog[id]
	}
	call := has("<|call|>") || has("<|calls|>")
	if has("<|end|>") && call && (has("<|return|>") || has("<|flush|>")) {
		id := t.ids["<|end|>"]
		delete(t.eog, id)
		t.attrs[id] = attrUserDefined
	}
	if has("</s>") && (has("<|tool_response>") || has("<|plamo:eos|>")) {
		id := t.ids["</s>"]
		delete(t.eog, id)
		t.attrs[id] = attrNormal
	}
}

func (t *Tokenizer) firstOf(texts []string) ID {
	for _, text := range texts {
		if id, ok := t.ids[text]; ok {
			return id
		}
	}
	return None
}

func (t *Tokenizer) mark(id ID) {
	if id != None {
		t.attrs[id] |= attrControl
	}
}

// collectSpecial lists the tokens to match in text, longest first.
func (t *Tokenizer) collectSpecial() {
	for id, a := range t.attrs {
		if a&(attrHidden|attrUserDefined) != 0 {
			t.special = append(t.special, ID(id))
		}
	}
	slices.SortStableFunc(t.special, func(a, b ID) int {
		return len(t.texts[b]) - len(t.texts[a])
	})
	t.starts = newSpecialStarts(t)
}
