/* first_space - how decoding handles the space at the start of a text.
 *
 * Threads: any. Memory: none. Errors: none. */
#ifndef MR_CODEC_TOKENIZER_FIRST_SPACE_H
#define MR_CODEC_TOKENIZER_FIRST_SPACE_H

/* Which spaces at the start of a decoded text are removed: the text was encoded with a space in
 * front of it. */
enum mr_first_space {
    MR_FIRST_SPACE_KEPT,
    MR_FIRST_SPACE_OF_TEXT,  /* one space at the start of the text */
    MR_FIRST_SPACE_OF_TOKEN, /* all spaces of the first token (decoder Metaspace) */
    /* one space of each token until the text has begun (SentencePiece without extra spaces) */
    MR_FIRST_SPACE_UNTIL_TEXT
};

#endif
