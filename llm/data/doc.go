// Package data makes samples for training of files: lists of tokens, with the weight
// that predicting each has in the loss, and the order in which they are visited.
package data
