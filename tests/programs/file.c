/* file.c: a file that the ranks of a communicator write and read again, in a view of theirs.
 *
 * In the same view for all, rank after rank has its part of each round. In views of their own the ranks' parts lie apart, or they take
 * turns. What is read comes into another layout than it was written from; the whole file is looked at last. */
#include "known.h"
#include "programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum view { SAME, APART, TURNS, VIEWS };
static const char *const view_name[VIEWS] = {"one view for all", "ranges apart", "turns"};
enum form { PLAIN, AT, ALL, AT_ALL, LATER, LATER_AT, LATER_ALL, LATER_AT_ALL, SPLIT_ALL, SPLIT_AT_ALL, ORDERED, SPLIT_ORDERED, FORMS };
static const char *const form_name[FORMS] = {"", "_at", "_all", "_at_all", ", nonblocking", "_at, nonblocking", "_all, nonblocking",
                                             "_at_all, nonblocking", "_all_begin", "_at_all_begin", "_ordered", "_ordered_begin"};
enum what { WRITE, WRITE_END, SYNC, READ, READ_END };
enum { ROUNDS = 2, PATH = 300, HEAD_MOST = 64, ATTEMPTS = 12 };

struct file {
    int comm, rounds, turn, head;     /* units of a turn; bytes before the views */
    enum view view;
    struct unit unit;
    bool plain;                       /* no call ends later */
    int each;                         /* units of a filetype, in ranges apart */
    struct {
        enum form form[2];            /* of writing, of reading */
        int units[RANKS];
        bool other;                   /* reads what the next rank wrote */
    } round[ROUNDS];
    int me;
    char path[PATH];
    MPI_File file;
    MPI_Request request;
    struct layout view_of[RANKS];
    int64_t begin[RANKS];             /* of the views */
    struct end s[ROUNDS], r[ROUNDS];
    int done;
};

static bool collective(enum form f) { return f != PLAIN && f != AT && f != LATER && f != LATER_AT; }
static bool ends_later(enum form f) { return f >= LATER && f <= LATER_AT_ALL; }
static bool splits(enum form f) { return f == SPLIT_ALL || f == SPLIT_AT_ALL || f == SPLIT_ORDERED; }
static bool ordered(enum form f) { return f == ORDERED || f == SPLIT_ORDERED; }
static bool at_offset(enum form f) { return f == AT || f == AT_ALL || f == LATER_AT || f == LATER_AT_ALL || f == SPLIT_AT_ALL; }

/* ---- plan ---- */

static void plan_calls(struct op *o, struct chance *c, int round, int write, int first, int last)
{
    struct file *f = o->own;
    const struct comm *m = &o->strand->comms[f->comm];
    enum form form = f->round[round].form[!write];
    int time = draw_in(c, first, last), end = draw_in(c, time, last);
    for (int i = 0; i < m->n[0]; i++) {
        int own = collective(form) ? time : draw_in(c, first, last);
        op_event(o, own, m->world[0][i], ends_later(form) ? START : BLOCK, write ? WRITE : READ, round);
        if (!ends_later(form) && !splits(form)) continue;
        /* The end of a split call may be the whole call: it has one time for all. */
        op_event(o, splits(form) ? end : draw_in(c, own, last), m->world[0][i], ends_later(form) ? DONE : BLOCK,
                 write ? WRITE_END : READ_END, round);
    }
}

static enum form form_draw(const struct file *f, struct chance *c)
{
    enum form form = (enum form)draw(c, f->view == SAME ? FORMS : ORDERED);
    if ((KNOWN_FILE_LATER || f->plain) && ends_later(form)) return form - LATER;
    return f->plain && splits(form) ? (form == SPLIT_ALL ? ALL : form == SPLIT_AT_ALL ? AT_ALL : ORDERED) : form;
}

static void plan(struct op *o, struct chance *c)
{
    static const int comms[] = {COMM_WORLD, COMM_BACKWARDS, COMM_PART};
    struct file *f = o->own;
    f->comm = comms[draw(c, 3)];
    const struct comm *m = &o->strand->comms[f->comm];
    f->view = (enum view)draw(c, VIEWS), f->rounds = draw_in(c, 1, ROUNDS), f->head = draw(c, HEAD_MOST);
    f->unit = unit_draw(c);
    if (f->unit.n > 1 || unit_pairs(&f->unit)) f->unit = (struct unit){.n = 1, .part = {{0, 1}}};
    bool others = o->strand->files++ > 0;
    f->plain = KNOWN_FILE_SYNC && (others || !once_in(c, 3));
    if (KNOWN_FILE_SYNC && !f->plain) o->strand->file_alone = true;
    f->turn = draw_in(c, 1, 8), f->each = draw_in(c, 1, 12);
    for (int r = 0; r < f->rounds; r++) {
        int first = r * TIMES / f->rounds, last = (r + 1) * TIMES / f->rounds - 1, middle = (first + last) / 2;
        for (int k = 0; k < 2; k++) f->round[r].form[k] = form_draw(f, c);
        f->round[r].other = once_in(c, 2) && f->view == SAME && !ordered(f->round[r].form[1]);
        for (int i = 0; i < RANKS; i++) f->round[r].units[i] = units_draw(c, &f->unit) / 4;
        if (KNOWN_FILE_THREADS || (others && o->strand->file_alone)) continue;
        plan_calls(o, c, r, 1, first, middle - 1);
        for (int i = 0; i < m->n[0]; i++) op_event(o, middle, m->world[0][i], BLOCK, SYNC, r);
        plan_calls(o, c, r, 0, middle + 1, last);
    }
}

/* ---- views ---- */

/* Offsets never go back in a filetype. */
static bool goes_on(const struct layout *l)
{
    int64_t next = 0, low, high;
    MPI_Aint lb, extent;
    for (int i = 0; i < l->map.n; i++) {
        const struct run *r = &l->map.run[i];
        if (r->at < next) return false;
        next = r->at + (int64_t)r->n * kinds[r->kind].extent;
    }
    map_range(&l->map, &low, &high);
    MPI_Type_get_extent(l->type, &lb, &extent);
    return lb == 0 && extent >= high && extent < 100000;
}

/* Draws a type of `reps` units whose offsets never go back; with MPICH a vector, as it gives up on others (known.h). */
static void draw_simple(struct layout *l, uint64_t seed, const struct unit *u, int reps)
{
    int kind = u->part[0].kind, size = kinds[kind].extent, step = 1 + (int)(seed % 3);
    for (int i = 0; i < ATTEMPTS && !KNOWN_FILE_TYPES; i++) {
        layout_draw(l, seed + (uint64_t)i, u, reps, 1, OVERLAP_NEVER);
        if (l->map.n && goes_on(l)) return;
        layout_free(l);
    }
    *l = (struct layout){.reps = reps, .extent = ((int64_t)(reps - 1) * step + 1) * size};
    MPI_Type_vector(reps, 1, step, kinds[kind].type, &l->type);
    MPI_Type_commit(&l->type);
    for (int i = 0; i < reps; i++) map_add(&l->map, (int64_t)i * step * size, 1, kind, 0);
    snprintf(l->text, sizeof l->text, "vector(%d, 1, %d, %s)", reps, step, kinds[kind].name);
}

static void view_turns(struct op *o, struct file *f, int rank)
{
    struct layout *l = &f->view_of[rank];
    int n = o->strand->comms[f->comm].n[0], kind = f->unit.part[0].kind, size = kinds[kind].size;
    MPI_Datatype turn;
    *l = (struct layout){.reps = f->turn, .extent = (int64_t)n * f->turn * size};
    MPI_Type_contiguous(f->turn, kinds[kind].type, &turn);
    MPI_Type_create_resized(turn, 0, (MPI_Aint)l->extent, &l->type);
    MPI_Type_commit(&l->type);
    MPI_Type_free(&turn);
    map_add(&l->map, 0, f->turn, kind, 0);
    snprintf(l->text, sizeof l->text, "resized(0, %lld, contiguous(%d, %s))", (long long)l->extent, f->turn, kinds[kind].name);
}

static int units_of(const struct file *f, int rank)
{
    int all = 0;
    for (int r = 0; r < f->rounds; r++) all += f->round[r].units[rank];
    return all;
}

static void make_views(struct op *o, struct file *f)
{
    int n = o->strand->comms[f->comm].n[0];
    int64_t next = f->head;
    for (int i = 0; i < n; i++) {
        f->begin[i] = next;
        if (f->view == APART) {
            draw_simple(&f->view_of[i], o->seed + 3000 + (uint64_t)(i * 50), &f->unit, f->each);
            next += (units_of(f, i) / f->view_of[i].reps + 1) * f->view_of[i].extent;
        } else if (f->view == TURNS) {
            view_turns(o, f, i);
            next += (int64_t)f->turn * kinds[f->unit.part[0].kind].size;
        } else {
            f->view_of[i] = (struct layout){.type = MPI_BYTE, .named = true, .reps = 1, .extent = 1};
            map_add(&f->view_of[i].map, 0, 1, 3, 0);
        }
    }
}

/* Returns the units from the view's beginning to a rank's part of a round. */
static int64_t place_of(struct op *o, const struct file *f, int round, int rank)
{
    int64_t at = 0;
    for (int r = 0; r < round; r++)
        for (int i = 0; i < o->strand->comms[f->comm].n[0]; i++)
            if (f->view == SAME || i == rank) at += f->round[r].units[i];
    for (int i = 0; i < rank && f->view == SAME; i++) at += f->round[round].units[i];
    return at;
}

/* Returns the place in the view's etypes. */
static MPI_Offset offset_of(struct op *o, const struct file *f, int round, int rank)
{
    return (MPI_Offset)(place_of(o, f, round, rank) * (f->view == SAME ? unit_bytes(&f->unit) : 1));
}

static int reads_from(struct op *o, const struct file *f, int round, int rank)
{
    return f->round[round].other ? (rank + 1) % o->strand->comms[f->comm].n[0] : rank;
}

/* ---- the buffers ---- */

static uint64_t salt_of(const struct op *o, int round, int rank)
{
    return o->seed * 32 + (uint64_t)(round * 8 + rank);
}

static void open_buffer(struct op *o, struct end *e, uint64_t seed, int units)
{
    struct file *f = o->own;
    struct chance c = chance_of(seed, 4);
    *e = (struct end){.strand = o->strand->number, .n = 1, .layouts = 1};
    draw_simple(&e->layout[0], seed, &f->unit, draw_divisor(&c, units ? units : 1));
    e->block[0] = (struct block){&e->layout[0], units / e->layout[0].reps, 0};
    end_place(e, o->strand->number, &c, memory_draw(&c));
}

static void open_file(struct op *o, struct file *f)
{
    MPI_Comm comm = o->strand->comms[f->comm].comm;
    const char *folder = getenv("TMPDIR");
    int pid = (int)getpid();
    MPI_Datatype etype = f->view == SAME ? MPI_BYTE : kinds[f->unit.part[0].kind].type;
    MPI_Bcast(&pid, 1, MPI_INT, 0, comm);
    snprintf(f->path, PATH, "%s/programs-%d-%llu-%d", folder ? folder : "/tmp", pid, (unsigned long long)o->seed, o->number);
    op_must(o, MPI_File_open(comm, f->path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f->file), "MPI_File_open");
    op_must(o, MPI_File_set_view(f->file, f->begin[f->view == SAME ? 0 : f->me], etype, f->view_of[f->me].type, "native", MPI_INFO_NULL),
         "MPI_File_set_view");
}

static void prepare(struct op *o)
{
    struct file *f = o->own;
    f->me = comm_rank(&o->strand->comms[f->comm], my_rank), f->request = MPI_REQUEST_NULL;
    if (f->me < 0 || !o->n) return;
    make_views(o, f);
    tell("op %d: a file, communicator %d, %s from byte %lld on: %s", o->number, f->comm, view_name[f->view], (long long)f->begin[f->me],
         f->view_of[f->me].text);
    for (int r = 0; r < f->rounds; r++) {
        int from = reads_from(o, f, r, f->me);
        open_buffer(o, &f->s[r], o->seed + 5000 + (uint64_t)(r * 20 + f->me), f->round[r].units[f->me]);
        open_buffer(o, &f->r[r], o->seed + 6000 + (uint64_t)(r * 20 + f->me), f->round[r].units[from]);
        tell("    round %d: write%s %d units at %lld, read%s those of rank %d", r, form_name[f->round[r].form[0]], f->round[r].units[f->me],
             (long long)place_of(o, f, r, f->me), form_name[f->round[r].form[1]], from);
        end_tell(&f->s[r], "written"), end_tell(&f->r[r], "read");
    }
    for (int i = 0; i < o->n && setup.tell; i++)
        if (o->event[i].rank == my_rank)
            tell("    time %d, rank %d: event %d of round %d", o->event[i].time, my_rank, o->event[i].what, o->event[i].round);
    open_file(o, f);
}

/* ---- the calls ---- */

static void check_count(struct op *o, const MPI_Status *s, int64_t bytes, const char *what)
{
    int n = -1;
    MPI_Get_count(s, MPI_BYTE, &n);
    digest_numbers(what, o->number, n, 0);
    if (n != bytes) differ("op %d: %s: a status of %d bytes, not %lld", o->number, what, n, (long long)bytes);
}

static void over(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    struct file *f = o->own;
    bool writes = e->what == WRITE || e->what == WRITE_END;
    struct end *end = writes ? &f->s[e->round] : &f->r[e->round];
    char what[100];
    snprintf(what, sizeof what, "op %d, MPI_File_%s%s of round %d", o->number, writes ? "write" : "read",
             form_name[f->round[e->round].form[!writes]], e->round);
    f->done++;
    op_must(o, code, what);
    if (code != MPI_SUCCESS) return;
    if (s) check_count(o, s, end_bytes(end, 0), what);
    if (!writes) end_expect(end, 0, salt_of(o, e->round, reads_from(o, f, e->round, f->me)) + (planted(o)), end_bytes(end, 0));
    end_check(end, what);
}

#define BUFFER b->buf, b->block[0].count, b->block[0].layout->type
#define EITHER(name, ...) (writes ? MPI_File_write##name(__VA_ARGS__) : MPI_File_read##name(__VA_ARGS__))
#define ILATER(name, ...) (writes ? MPI_File_iwrite##name(__VA_ARGS__) : MPI_File_iread##name(__VA_ARGS__))
static void begin(struct op *o, const struct event *e, bool writes)
{
    struct file *f = o->own;
    struct end *b = writes ? &f->s[e->round] : &f->r[e->round];
    enum form form = f->round[e->round].form[!writes];
    MPI_Offset at = offset_of(o, f, e->round, writes ? f->me : reads_from(o, f, e->round, f->me));
    MPI_Status s;
    MPI_File file = f->file;
    int code;
    end_clear(b, o->seed + (uint64_t)e->round + writes);
    if (writes) end_put(b, 0, salt_of(o, e->round, f->me));
    end_store(b);
    if (ordered(form)) op_must(o, MPI_File_seek_shared(file, offset_of(o, f, e->round, 0), MPI_SEEK_SET), "MPI_File_seek_shared");
    else if (!at_offset(form)) op_must(o, MPI_File_seek(file, at, MPI_SEEK_SET), "MPI_File_seek");
    switch (form) {
    case PLAIN: code = EITHER(, file, BUFFER, &s); break;
    case AT: code = EITHER(_at, file, at, BUFFER, &s); break;
    case ALL: code = EITHER(_all, file, BUFFER, &s); break;
    case AT_ALL: code = EITHER(_at_all, file, at, BUFFER, &s); break;
    case LATER: code = ILATER(, file, BUFFER, &f->request); break;
    case LATER_AT: code = ILATER(_at, file, at, BUFFER, &f->request); break;
    case LATER_ALL: code = ILATER(_all, file, BUFFER, &f->request); break;
    case LATER_AT_ALL: code = ILATER(_at_all, file, at, BUFFER, &f->request); break;
    case SPLIT_ALL: code = EITHER(_all_begin, file, BUFFER); break;
    case SPLIT_AT_ALL: code = EITHER(_at_all_begin, file, at, BUFFER); break;
    case ORDERED: code = EITHER(_ordered, file, BUFFER, &s); break;
    default: code = EITHER(_ordered_begin, file, BUFFER);
    }
    if (ends_later(form) || splits(form)) op_must(o, code, "the beginning of a call on a file");
    else over(o, e, &s, code);
}

static void end(struct op *o, const struct event *e, bool writes)
{
    struct file *f = o->own;
    struct end *b = writes ? &f->s[e->round] : &f->r[e->round];
    MPI_Status s;
    int code;
    switch (f->round[e->round].form[!writes]) {
    case SPLIT_ALL: code = EITHER(_all_end, f->file, b->buf, &s); break;
    case SPLIT_AT_ALL: code = EITHER(_at_all_end, f->file, b->buf, &s); break;
    default: code = EITHER(_ordered_end, f->file, b->buf, &s);
    }
    over(o, e, &s, code);
}

static void act(struct op *o, const struct event *e)
{
    struct file *f = o->own;
    switch ((enum what)e->what) {
    case WRITE: begin(o, e, true); break;
    case WRITE_END: end(o, e, true); break;
    case READ: begin(o, e, false); break;
    case READ_END: end(o, e, false); break;
    default:
        op_must(o, MPI_File_sync(f->file), "MPI_File_sync");
        MPI_Barrier(o->strand->comms[f->comm].comm);
        op_must(o, MPI_File_sync(f->file), "MPI_File_sync");
    }
}

static MPI_Request *request(struct op *o, const struct event *e)
{
    (void)e;
    return &((struct file *)o->own)->request;
}

static void done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    over(o, e, s, code);
}

/* ---- the whole file ---- */

struct image {
    unsigned char *bytes, *written;
    int64_t room, size, begin, at, skip;   /* at: of the tile; skip: packed bytes before the round's */
    const unsigned char *packed;
    int64_t left;
};

static void draw_piece(void *arg, int region, int64_t at, int64_t packed, int64_t n)
{
    struct image *k = arg;
    (void)region;
    for (int64_t i = 0; i < n; i++) {
        int64_t place = k->begin + k->at + at + i;
        if (packed + i < k->skip || k->left == 0) continue;
        if (place < k->room) k->bytes[place] = *k->packed, k->written[place] = 1;
        if (place >= k->size) k->size = place + 1;
        k->packed++, k->left--;
    }
}

static void draw_part(struct op *o, struct file *f, struct image *k, int round, int rank)
{
    const struct layout *l = &f->view_of[rank];
    int64_t bytes = (int64_t)f->round[round].units[rank] * unit_bytes(&f->unit);
    int64_t first = place_of(o, f, round, rank) * unit_bytes(&f->unit), tile = l->map.bytes;
    unsigned char *packed = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++) packed[i] = stream_at(salt_of(o, round, rank), i);
    k->begin = f->begin[f->view == SAME ? 0 : rank], k->packed = packed, k->left = bytes;
    for (int64_t t = first / tile; k->left > 0; t++) {
        k->at = t * l->extent, k->skip = first > t * tile ? first - t * tile : 0;
        map_walk(&l->map, tile, draw_piece, k);
    }
    free(packed);
}

static void check_file(struct op *o, struct file *f)
{
    enum { MORE = 16 };
    struct image k = {0};
    char what[60];
    FILE *in = fopen(f->path, "rb");
    int64_t got;
    if (!in) {
        differ("op %d: the file is gone", o->number);
        return;
    }
    fseek(in, 0, SEEK_END);
    k.room = ftell(in);
    rewind(in);
    k.bytes = calloc(1, (size_t)k.room + MORE), k.written = calloc(1, (size_t)k.room + MORE);
    unsigned char *bytes = calloc(1, (size_t)k.room + MORE);
    got = (int64_t)fread(bytes, 1, (size_t)k.room, in);
    fclose(in);
    for (int r = 0; r < f->rounds; r++)
        for (int i = 0; i < o->strand->comms[f->comm].n[0]; i++) draw_part(o, f, &k, r, i);
    if (got != k.room || k.size != k.room) differ("op %d: a file of %lld bytes, not %lld", o->number, (long long)k.room, (long long)k.size);
    for (int64_t i = 0; i < k.room && k.size == k.room; i++)
        if (k.written[i] && bytes[i] != k.bytes[i]) {
            differ("op %d: byte %lld of the file is 0x%02x, not 0x%02x", o->number, (long long)i, bytes[i], k.bytes[i]);
            break;
        }
    snprintf(what, sizeof what, "op %d, the file", o->number);
    for (int64_t i = 0; i < k.room && k.size == k.room; i++)
        if (!k.written[i]) bytes[i] = 0;   /* what nobody has written may be anything */
    digest_bytes(what, bytes, (size_t)got);
    free(bytes), free(k.bytes), free(k.written);
}

static void finish(struct op *o)
{
    struct file *f = o->own;
    if (f->me < 0 || !o->n) return;
    if (f->done != 2 * f->rounds) differ("op %d: %d calls of %d are complete", o->number, f->done, 2 * f->rounds);
    op_must(o, MPI_File_close(&f->file), "MPI_File_close");
    MPI_Barrier(o->strand->comms[f->comm].comm);
    if (f->me == 0) check_file(o, f), unlink(f->path);
    for (int i = 0; i < o->strand->comms[f->comm].n[0]; i++) layout_free(&f->view_of[i]);
    for (int r = 0; r < f->rounds; r++) end_close(&f->s[r]), end_close(&f->r[r]);
}

const struct op_row file_row = {"file", 2, sizeof(struct file), plan, prepare, act, request, done, finish};
