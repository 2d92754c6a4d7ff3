//! Columns for people: each as wide as its widest cell, the last one ragged.

/// Lines of `rows` under `head`, two spaces between columns.
pub fn lines(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let width =
        |column: usize| all().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    all().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let padded = row.iter().zip(widths).map(|(cell, &width)| format!("{cell:<width$}"));
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let rows = [vec!["a".to_owned(), "x".to_owned()], vec!["long".to_owned(), "y".to_owned()]];
        assert_eq!(lines(&["ID", "NAME"], &rows), ["ID    NAME", "a     x", "long  y"]);
    }
}
