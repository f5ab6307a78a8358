package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// propertiesOf returns the properties of a schema, and any value for a required name that it does not describe.
func propertiesOf(o *object, path string) (*object, error) {
	properties := newObject()
	if o.has("properties") {
		given, is := o.values["properties"].(*object)
		if !is {
			return nil, fmt.Errorf("%s: properties must be an object", at(path))
		}
		properties = without(given)
	}
	list, is := o.values["required"].([]any)
	if o.has("required") && !is {
		return nil, fmt.Errorf("%s: required must be a list of names", at(path))
	}
	for _, value := range list {
		name, is := value.(string)
		if !is {
			return nil, fmt.Errorf("%s: required must be a list of names", at(path))
		}
		if !properties.has(name) {
			properties.set(name, otherProperties(o, true))
		}
	}
	return properties, nil
}

// otherProperties returns the schema of properties without one of their own.
func otherProperties(o *object, otherwise any) any {
	if of, has := o.values["additionalProperties"]; has {
		return of
	}
	return otherwise
}

// object returns the rule of objects: required properties in their order, then the others, each of which may be left out.
func (w *schemaWriter) object(o *object, path string) (string, error) {
	properties, err := propertiesOf(o, path)
	if err != nil {
		return "", err
	}
	others := otherProperties(o, !o.has("properties"))
	if others == true && len(properties.keys) == 0 {
		return w.use("object"), nil
	}
	required, _ := o.values["required"].([]any)
	var first, optional []string // pairs of key and value
	for _, key := range properties.keys {
		value, err := w.visit(properties.values[key], join(path, key))
		if err != nil {
			return "", err
		}
		pair := Literal(quoteJSON(key)) + ` space ":" space ` + value
		if slices.Contains(required, any(key)) {
			first = append(first, pair)
		} else {
			optional = append(optional, pair)
		}
	}
	w.use("space")
	rest, begin, err := w.optional(optional, o, properties, others, path)
	if err != nil {
		return "", err
	}
	body := `"{" space `
	switch {
	case len(first) > 0:
		body += strings.Join(first, ` "," space `) + " " + rest
	case begin != "":
		body += "(" + begin + ")?"
	}
	return w.rule(path, body+` space "}"`)
}

// optional returns what may follow other properties, and alternatives that may stand alone; "" if there is nothing.
func (w *schemaWriter) optional(pairs []string, o, properties *object, others any, path string) (rest, begin string, err error) {
	var alternatives []string
	if others != false {
		pair, err := w.otherPair(properties, others, path)
		if err != nil {
			return "", "", err
		}
		rest = `("," space ` + pair + ")*"
		alternatives = []string{pair + " " + rest}
	}
	for i, pair := range slices.Backward(pairs) {
		alternatives = append(alternatives, pair+" "+rest)
		if rest, err = w.rule(join(path, "rest"+strconv.Itoa(i)), `("," space `+pair+")? "+rest); err != nil {
			return "", "", err
		}
	}
	slices.Reverse(alternatives)
	return rest, strings.Join(alternatives, " | "), nil
}

// otherPair returns a pair whose key is none of the properties.
func (w *schemaWriter) otherPair(properties *object, others any, path string) (string, error) {
	value, err := w.visit(others, join(path, "other"))
	if err != nil {
		return "", err
	}
	key := w.use("string")
	if len(properties.keys) > 0 {
		if key, err = w.otherKey(properties.keys, path); err != nil {
			return "", err
		}
	}
	return key + ` ":" space ` + value, nil
}

// otherKey returns the rule of keys that are none of the names. A key leaves the names by a character that is written as
// itself: an escape could write a character of a name.
func (w *schemaWriter) otherKey(names []string, path string) (string, error) {
	w.use("char")
	trie := &keyNode{}
	for _, name := range names {
		trie.add(name)
	}
	body, err := w.keysOutside(trie, join(path, "key"))
	if err != nil {
		return "", err
	}
	return w.rule(join(path, "key"), `"\"" `+body+` "\""`)
}

// A keyNode is a node of a trie of key names.
type keyNode struct {
	next map[rune]*keyNode
	runs []rune // keys of next, in order
	ends bool   // a name
}

func (n *keyNode) add(name string) {
	for _, r := range name {
		child := n.next[r]
		if child == nil {
			if n.next == nil {
				n.next = map[rune]*keyNode{}
			}
			child = &keyNode{}
			n.next[r] = child
			n.runs = append(n.runs, r)
		}
		n = child
	}
	n.ends = true
}

// keysOutside returns what may follow the characters of a node so that the key is not a name.
func (w *schemaWriter) keysOutside(n *keyNode, path string) (string, error) {
	if len(n.runs) == 0 {
		return "char char*", nil
	}
	var alternatives []string
	class := `[^"\\\x7F\x00-\x1F`
	for _, r := range n.runs {
		rest, err := w.keysOutside(n.next[r], path)
		if err != nil {
			return "", err
		}
		name, err := w.rule(path, rest)
		if err != nil {
			return "", err
		}
		alternatives = append(alternatives, Literal(escapeJSON(r))+" "+name)
		class += escapeGBNF(r)
	}
	alternatives = append(alternatives, class+"] char*")
	body := "(" + strings.Join(alternatives, " | ") + ")"
	if !n.ends {
		body += "?"
	}
	return body, nil
}

// array returns the rule of arrays: items of prefixItems, each with a schema of its own, then items.
func (w *schemaWriter) array(o *object, path string) (string, error) {
	items, hasItems := o.values["items"]
	prefix, _ := o.values["prefixItems"].([]any)
	if list, is := items.([]any); is && prefix == nil { // the older form of prefixItems
		prefix, items, hasItems = list, nil, false
	}
	if prefix == nil && !hasItems {
		items, hasItems = true, true
	}
	least, err := count(o, "minItems", path, len(prefix))
	if err != nil {
		return "", err
	}
	otherwise := noLimit
	if !hasItems || items == false {
		otherwise = len(prefix)
	}
	most, err := count(o, "maxItems", path, otherwise)
	if err != nil {
		return "", err
	}
	if otherwise != noLimit {
		most = min(most, otherwise)
	}
	if most != noLimit && most < least {
		return "", fmt.Errorf("%s: an array of at least %d and at most %d items", at(path), least, most)
	}
	w.use("space")
	body, err := w.items(prefix, items, least, most, path)
	if err != nil {
		return "", err
	}
	return w.rule(path, `"[" space `+body+` space "]"`)
}

// items returns a list of items: the prefix, whose items are optional from the least count on, then items of one schema.
func (w *schemaWriter) items(prefix []any, items any, least, most int, path string) (string, error) {
	if most != noLimit {
		prefix = prefix[:min(len(prefix), most)]
	}
	rest, n := "", len(prefix)
	if most == noLimit || most > n {
		item, err := w.visit(items, join(path, "item"))
		if err != nil {
			return "", err
		}
		first := "" // an item without a comma
		if n == 0 {
			n, first = 1, item+" "
		}
		if most != noLimit {
			most -= n
		}
		if rest = first + `("," space ` + item + ")" + repeated(max(0, least-n), most); first != "" && least == 0 {
			rest = "(" + rest + ")?"
		}
	}
	for i, schema := range slices.Backward(prefix) {
		item, err := w.visit(schema, join(path, "item"+strconv.Itoa(i)))
		if err != nil {
			return "", err
		}
		if i > 0 {
			item = `"," space ` + item
		}
		if rest = item + " " + rest; i >= least {
			rest = "(" + rest + ")?"
		}
		if rest, err = w.rule(join(path, "items"+strconv.Itoa(i)), rest); err != nil {
			return "", err
		}
	}
	return rest, nil
}
