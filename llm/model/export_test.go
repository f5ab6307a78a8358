package model

var PlainTo = plainTo
