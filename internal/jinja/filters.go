package jinja

import "slices"

// A filterFunc returns v|name(arguments).
type filterFunc func(s *state, v Value, a *arguments) Value

var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"abs": (*state).abs, "attr": (*state).attr, "batch": (*state).batch, "slice": (*state).sliceFilter,
		"capitalize": textFilter(capitalize), "title": textFilter(titleWords), "upper": textFilter(upperCase), "lower": textFilter(lowerCase),
		"string": textFilter(func(t Text) Text { return t }), "center": (*state).center,
		"count": (*state).lengthFilter, "length": (*state).lengthFilter,
		"d": (*state).preset, "default": (*state).preset, "dictsort": (*state).dictsort, "items": (*state).itemsFilter,
		"e": (*state).escape, "escape": (*state).escape, "forceescape": (*state).forceEscape,
		"safe":  func(s *state, v Value, _ *arguments) Value { t := s.str(v); t.safe = true; return t },
		"first": (*state).first, "last": (*state).last, "float": (*state).floatFilter, "int": (*state).intFilter,
		"format": (*state).formatFilter, "groupby": (*state).groupBy, "indent": (*state).indent, "join": (*state).joinFilter,
		"list": func(s *state, v Value, _ *arguments) Value { return NewList(slices.Clone(s.iterate(v))) },
		"map":  (*state).mapFilter, "min": extreme("min", -1), "max": extreme("max", 1),
		"select": selection("select", true, false), "reject": selection("reject", false, false),
		"selectattr": selection("selectattr", true, true), "rejectattr": selection("rejectattr", false, true),
		"replace": (*state).replaceFilter, "reverse": (*state).reverse, "round": (*state).round, "sort": (*state).sort,
		"sum": (*state).sum, "tojson": (*state).toJSON, "trim": (*state).trim, "truncate": (*state).truncate,
		"unique": (*state).unique, "urlencode": (*state).urlEncode, "wordcount": (*state).wordCount,
		"striptags": (*state).stripTags, "xmlattr": (*state).xmlAttributes, "filesizeformat": (*state).fileSize,
	}
}

func (s *state) filter(name string, v Value, a *arguments) Value {
	f, ok := filters[name]
	if !ok {
		s.fail("no filter named %q", name)
	}
	s.charge(1)
	return f(s, v, a)
}

func (s *state) attr(v Value, a *arguments) Value {
	name := s.needText(a.bind(s, "attr", 1, "name")[0]).s
	s.needDefined(v)
	if found, ok := s.tryAttribute(v, name); ok {
		return found
	}
	return s.missing(v, "'"+name+"'")
}

func (s *state) preset(v Value, a *arguments) Value {
	args := a.bind(s, "default", 0, "default_value", "boolean")
	_, isUndefined := v.(*undefined)
	if isUndefined || truth(or(args[1], false)) && !truth(v) {
		return or(args[0], Text{})
	}
	return v
}
