# Archives and pipelines of compressors, sorts by several threads, files in pieces.
seq 1 30000 > numbers
mkdir d
cp numbers d/a
ln -s a d/link
ln d/a d/hard
for method in gzip xz bzip2 zstd; do
    tar c --$method -f $method.tar d && mkdir $method && tar x -C $method -f $method.tar && cmp $method/d/hard numbers
    tar tf $method.tar | sort | tr '\n' ' '
done
echo
tar c d | zstd -q -T2 | zstd -dc | tar t | wc -l
xz -T2 -k numbers
xzcat numbers.xz | gzip | zcat | bzip2 | bunzip2 | cksum
find d | sort | cpio -o 2> cpio.log | cpio -t 2>> cpio.log
sort -R numbers | sort -n --parallel=4 -S 1M | cmp - numbers && echo sorted
split -l 7000 numbers part.
cat part.* | cmp - numbers && ls part.* | wc -l
comm -12 <(seq 1 5) <(seq 3 9) | tr '\n' ' '
tail -n 3 numbers | tac | rev | nl | od -c | head -2
