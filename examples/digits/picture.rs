//! The picture: loss curve, confusion matrix, and some test images with what the network takes them for.

use plotters::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const INK: RGBColor = RGBColor(32, 38, 51);
const BLUE_INK: RGBColor = RGBColor(38, 92, 173);
const RED_INK: RGBColor = RGBColor(190, 48, 42);

/// How often each digit (row) was taken for each digit (column).
pub(crate) struct Confusion([[usize; 10]; 10]);

impl Confusion {
    /// Counts labels against predictions.
    pub(crate) fn new(labels: &[i64], predicted: &[i64]) -> Confusion {
        let mut counts = [[0; 10]; 10];
        for (&label, &prediction) in labels.iter().zip(predicted) {
            counts[label as usize][prediction as usize] += 1;
        }
        Confusion(counts)
    }

    /// The part on the diagonal.
    pub(crate) fn accuracy(&self) -> f64 {
        let right: usize = (0..10).map(|d| self.0[d][d]).sum();
        right as f64 / self.0.iter().flatten().sum::<usize>() as f64
    }
}

/// Draws everything to an SVG file.
pub(crate) fn draw(
    path: &str,
    losses: &[f32],
    steps_per_epoch: usize,
    confusion: &Confusion,
    images: &[(&[f32], i64)],
    predicted: &[i64],
) -> Outcome {
    let root = SVGBackend::new(path, (1180, 570)).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, bottom) = root.split_vertically(480);
    let (left, right) = top.split_horizontally(640);
    draw_losses(&left, losses, steps_per_epoch)?;
    draw_confusion(&right, confusion)?;
    draw_images(&bottom, images, predicted)?;
    root.present()?;
    Ok(())
}

fn draw_losses(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    losses: &[f32],
    steps_per_epoch: usize,
) -> Outcome {
    let epochs = losses.len() as f64 / steps_per_epoch as f64;
    let lowest = losses.iter().copied().fold(f32::INFINITY, f32::min).max(1e-6) as f64;
    let highest = losses.iter().copied().fold(0.0, f32::max) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption("Training loss", ("sans-serif", 20).into_font().color(&INK))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..epochs, (lowest * 0.7..highest * 1.3).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(226, 229, 235))
        .axis_style(INK)
        .x_desc("epoch")
        .y_desc("cross entropy")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0e}"))
        .draw()?;
    let at = |i: usize| (i + 1) as f64 / steps_per_epoch as f64;
    let steps = losses.iter().enumerate().map(|(i, &l)| (at(i), (l as f64).max(lowest)));
    chart.draw_series(LineSeries::new(steps, RGBColor(176, 200, 235).stroke_width(1)))?.label("step");
    let means = losses.chunks_exact(steps_per_epoch).enumerate().map(|(epoch, chunk)| {
        let mean = chunk.iter().map(|&l| l as f64).sum::<f64>() / steps_per_epoch as f64;
        ((epoch + 1) as f64, mean.max(lowest))
    });
    chart.draw_series(LineSeries::new(means, BLUE_INK.stroke_width(2)))?.label("mean of an epoch");
    Ok(())
}

fn draw_confusion(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    confusion: &Confusion,
) -> Outcome {
    let title = format!("Test images: {:.2} % right", 100.0 * confusion.accuracy());
    let centred = |size: i32, color: &RGBColor| {
        use plotters::style::text_anchor::{HPos, Pos, VPos};
        ("sans-serif", size).into_font().color(color).pos(Pos::new(HPos::Center, VPos::Center))
    };
    area.draw(&Text::new(title, (250, 24), centred(20, &INK)))?;
    area.draw(&Text::new("predicted", (250, 462), centred(14, &INK)))?;
    let (cell, x0, y0) = (38, 60, 66);
    for shown in 0..10 {
        let middle = y0 + cell * shown + cell / 2;
        area.draw(&Text::new(shown.to_string(), (x0 - 16, middle), centred(15, &INK)))?;
        area.draw(&Text::new(shown.to_string(), (x0 + cell * shown + cell / 2, y0 - 12), centred(15, &INK)))?;
        let row: usize = confusion.0[shown as usize].iter().sum();
        for taken in 0..10 {
            let count = confusion.0[shown as usize][taken as usize];
            let (x, y) = (x0 + cell * taken, y0 + cell * shown);
            let share = count as f64 / row.max(1) as f64;
            let strength = if count == 0 { 0.0 } else { 0.15 + 0.85 * share };
            let ink = if shown == taken { BLUE_INK } else { RED_INK };
            let fade = |c: u8| (255.0 - (255.0 - c as f64) * strength) as u8;
            let color = RGBColor(fade(ink.0), fade(ink.1), fade(ink.2));
            area.draw(&Rectangle::new([(x, y), (x + cell - 2, y + cell - 2)], color.filled()))?;
            if count > 0 {
                let text = if strength > 0.5 { WHITE } else { INK };
                area.draw(&Text::new(count.to_string(), (x + cell / 2, middle), centred(14, &text)))?;
            }
        }
    }
    Ok(())
}

fn draw_images(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    images: &[(&[f32], i64)],
    predicted: &[i64],
) -> Outcome {
    // Those taken for something else come first.
    let mut shown: Vec<_> = images.iter().zip(predicted).collect();
    shown.sort_by_key(|((_, label), prediction)| label == *prediction);
    for (i, ((pixels, label), &prediction)) in shown.into_iter().take(16).enumerate() {
        let (x0, y0, dot) = (34 + 71 * i as i32, 8, 7);
        for (p, &value) in pixels.iter().enumerate() {
            let (x, y) = (x0 + dot * (p as i32 % 8), y0 + dot * (p as i32 / 8));
            let shade = 255 - (value * 235.0) as u8;
            let color = RGBColor(shade, shade, shade);
            area.draw(&Rectangle::new([(x, y), (x + dot, y + dot)], color.filled()))?;
        }
        let color = if *label == prediction { BLUE_INK } else { RED_INK };
        let text = if *label == prediction { format!("{label}") } else { format!("{label} as {prediction}") };
        let style = ("sans-serif", 16).into_font().color(&color);
        area.draw(&Text::new(text, (x0 + 22, y0 + 8 * dot + 8), style))?;
    }
    Ok(())
}
